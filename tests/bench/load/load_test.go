package load

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"braid/tests/bench/lean"
	"braid/tests/bench/nullserver"
)

func TestQuantilesAreWithinAStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var h hist
	var all []time.Duration
	for range 10000 {
		d := time.Duration(rng.ExpFloat64() * 1e5)
		h.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{.01, .5, .95, .99} {
		got, want := h.quantile(q), all[int(q*float64(len(all)))]
		if ratio := float64(got) / float64(want); ratio < .93 || ratio > 1.07 {
			t.Errorf("quantile %g is %v, want about %v", q, got, want)
		}
	}
	if got := new(hist).quantile(.5); got != 0 {
		t.Errorf("an empty histogram has a median of %v", got)
	}
}

func TestRunCountsWhatIsAnswered(t *testing.T) {
	s, err := nullserver.Listen("127.0.0.1:0", nullserver.Options{Rows: 7, Base: 1, Stride: 1, Number: 1})
	if err != nil {
		t.Fatal(err)
	}
	go s.Serve()
	defer s.Close()
	login := lean.Login{Addr: s.Addr(), User: "sb", Password: "sb", Database: "sb"}
	for _, prepared := range []bool{false, true} {
		began, ended := 0, 0
		r, err := Run(t.Context(), Options{Login: login, Connections: 3, Query: "SELECT c FROM sbtest1 WHERE id={id}", Keys: 10, Prepared: prepared,
			For: 50 * time.Millisecond, Began: func() { began++ }, Ended: func() { ended++ }})
		if err != nil {
			t.Fatal(err)
		}
		if r.Queries == 0 || r.Rows != r.Queries || r.P50 == 0 || r.P95 < r.P50 || began != 1 || ended != 1 {
			t.Errorf("prepared %t: %+v", prepared, r)
		}
	}
	rows, first, total, err := Once(login, "SELECT id,c FROM sbtest1 ORDER BY id")
	if err != nil || rows != 7 || first <= 0 || total < first {
		t.Errorf("%d rows, first after %v of %v, %v", rows, first, total, err)
	}
	if _, err := Run(t.Context(), Options{Login: login, Connections: 1, Query: "SELECT 1 FROM nothing", Keys: 1, For: time.Minute}); err == nil {
		t.Error("a refused statement did not end the run")
	}
}
