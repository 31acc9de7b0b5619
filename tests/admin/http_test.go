package admin

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"braid/tests/servers"
)

func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

func TestHTTP(t *testing.T) {
	b := start(t, servers.MariaDB, nil)
	defer http.DefaultClient.CloseIdleConnections()
	url := "http://" + b.Server.HTTPAddr().String()
	db := b.Open(t)
	exec(t, db, "CREATE TABLE t(k INT PRIMARY KEY)", "SELECT k FROM t WHERE k=1", "SELECT k FROM t ORDER BY k")

	if code, body := get(t, url+"/healthz"); code != 200 || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	if code, body := get(t, url+"/readyz"); code != 200 || body != "ready\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	if code, body := get(t, url+"/debug/pprof/goroutine?debug=1"); code != 200 || !strings.Contains(body, "goroutine profile: total") {
		t.Errorf("/debug/pprof/goroutine: %d", code)
	}
	if code, _ := get(t, url+"/"); code != 404 {
		t.Errorf("/: %d", code)
	}

	code, body := get(t, url+"/metrics")
	if code != 200 {
		t.Fatalf("/metrics: %d %s", code, body)
	}
	for _, want := range []string{
		`(?m)^braid_statements_single_total [1-9]`, `(?m)^braid_statements_scattered_total [1-9]`, `(?m)^braid_sessions 1$`, `(?m)^braid_generation [1-9]`,
		`(?m)^braid_pool_open\{node="n0"\} [1-9]`, `(?m)^braid_pool_open\{node="n1"\} [1-9]`, `(?m)^go_goroutines [1-9]`, `(?m)^process_cpu_seconds_total `,
	} {
		if !regexp.MustCompile(want).MatchString(body) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	documented := manual(t, "metric")
	delete(documented, "metric")
	found := regexp.MustCompile(`(?m)^# HELP (braid_\S+) (.*)$`).FindAllStringSubmatch(body, -1)
	if len(found) < 15 {
		t.Errorf("/metrics has only %d of Braid's", len(found))
	}
	for _, m := range found {
		entry := documented[m[1]]
		delete(documented, m[1])
		if entry == nil || entry[1] != m[2] {
			t.Errorf("docs/admin.md says of %s %q, /metrics says %q", m[1], entry, m[2])
			continue
		}
		if labelled := strings.Contains(body, "\n"+m[1]+`{node="`); labelled != (entry[0] == "node") {
			t.Errorf("docs/admin.md gives %s the labels %s", m[1], entry[0])
		}
	}
	for name := range documented {
		t.Errorf("docs/admin.md explains %s, which /metrics has not", name)
	}

	if err := b.Nodes[1].Stop(); err != nil {
		t.Fatal(err)
	}
	if code, body := get(t, url+"/readyz"); code != 503 || !strings.Contains(body, "node n1: ") || strings.Contains(body, "node n0: ") {
		t.Errorf("/readyz without a node: %d %q", code, body)
	}
	if code, _ := get(t, url+"/healthz"); code != 200 {
		t.Errorf("/healthz without a node: %d", code)
	}
	_, rows := ask(t, open(t, b, operator, operatorPassword), "SHOW NODES")
	if len(rows) != 2 || rows[0][3] != "up" || !strings.Contains(rows[1][3], "cannot be reached") {
		t.Errorf("SHOW NODES without a node: %q", rows)
	}
}
