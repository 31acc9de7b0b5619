package proxy

import (
	"context"
	"fmt"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// handler is the operator's HTTP port: metrics, health, profiles.
func (s *Server) handler() http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&collector{s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "ok") })
	mux.HandleFunc("/readyz", s.readyz)
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// readyz says whether clients should be sent here: the schemas are read, every
// node answers, no shutdown is under way.
func (s *Server) readyz(w http.ResponseWriter, r *http.Request) {
	g := s.gen.Load()
	s.mu.Lock()
	draining := s.mu.draining
	s.mu.Unlock()
	bad := false
	say := func(format string, args ...any) {
		if !bad {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		bad = true
		_, _ = fmt.Fprintf(w, format+"\n", args...)
	}
	if draining {
		say("shutting down")
	}
	for db, err := range g.unread {
		say("database %s: %v", db, err)
	}
	for node, err := range nodeStates(r.Context(), g.cluster) {
		if err != nil {
			say("node %s: %v", node, err)
		}
	}
	if !bad {
		_, _ = fmt.Fprintln(w, "ready")
	}
}

// serveHTTP serves the operator's HTTP port until ctx ends.
func (s *Server) serveHTTP(ctx context.Context) error {
	srv := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(s.http); err != http.ErrServerClosed {
		return err
	}
	return nil
}

// collector turns the server's figures into metrics when they are asked for.
type collector struct{ s *Server }

// Describe implements prometheus.Collector: the metrics vary with the nodes,
// so none are announced.
func (c *collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c *collector) Collect(out chan<- prometheus.Metric) {
	send := func(name, help string, kind prometheus.ValueType, v float64, labels, values []string) {
		out <- prometheus.MustNewConstMetric(prometheus.NewDesc("braid_"+name, help, labels, nil), kind, v, values...)
	}
	for _, x := range c.s.stats.list() {
		send(x.name+"_total", x.help, prometheus.CounterValue, float64(x.value.Load()), nil, nil)
	}
	g := c.s.gen.Load()
	send("sessions", "clients connected", prometheus.GaugeValue, float64(len(c.s.Sessions())), nil, nil)
	send("sessions_max", "proxy.connections_max", prometheus.GaugeValue, float64(g.cfg.Proxy.ConnectionsMax), nil, nil)
	send("generation", "number of the configuration and schema snapshot in force", prometheus.GaugeValue, float64(g.number), nil, nil)
	send("databases_unusable", "databases whose schema could not be read", prometheus.GaugeValue, float64(len(g.unread)), nil, nil)
	send("transactions_open", "transactions with a leg on some node", prometheus.GaugeValue, float64(len(c.s.tx.Open())), nil, nil)
	send("prepared_statements", "statements that clients have prepared", prometheus.GaugeValue, float64(c.s.prepared.Load()), nil, nil)
	for _, n := range g.cluster.Nodes() {
		st := n.Stats()
		l, v := []string{"node"}, []string{n.Name()}
		send("pool_open", "connections to the node", prometheus.GaugeValue, float64(st.Open), l, v)
		send("pool_idle", "idle connections to the node", prometheus.GaugeValue, float64(st.Idle), l, v)
		send("pool_waiting", "sessions waiting for a connection to the node", prometheus.GaugeValue, float64(st.Waiting), l, v)
		send("pool_max", "connections_max of the node's pool", prometheus.GaugeValue, float64(st.Max), l, v)
		send("pool_opened_total", "connections opened to the node", prometheus.CounterValue, float64(st.Opened), l, v)
		send("pool_failed_total", "connections to the node that could not be opened", prometheus.CounterValue, float64(st.Failed), l, v)
		send("pool_statements", "statements kept prepared on the node", prometheus.GaugeValue, float64(st.Statements), l, v)
		send("pool_statements_refused_total", "statements that the node had no room to prepare; others were closed for them", prometheus.CounterValue, float64(st.NoRoom), l, v)
	}
}
