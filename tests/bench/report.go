package main

import (
	"fmt"
	"math"
	"os"
	"text/tabwriter"
)

// goal is one measured figure beside what it should be at most. The numbers are
// those of the design's table of goals.
type goal struct {
	number    string
	what      string
	got       float64
	must, aim float64
	unit      string
}

// verdict judges the figure as it is shown, to two places.
func (g *goal) verdict() string {
	switch got := math.Round(g.got*100) / 100; {
	case got <= g.aim:
		return "reached"
	case got <= g.must:
		return "held"
	}
	return "MISSED" // also when it is not a number
}

// report collects the goals of a run.
type report struct{ goals []goal }

func (r *report) add(g goal) { r.goals = append(r.goals, g) }

func (r *report) print() {
	if len(r.goals) == 0 {
		return
	}
	fmt.Printf("\n## goals\n\n")
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "goal\twhat\tmeasured\tmust\taim\t")
	for _, g := range r.goals {
		fmt.Fprintf(w, "%s\t%s\t%.2f%s\t<= %g\t<= %g\t%s\n", g.number, g.what, g.got, g.unit, g.must, g.aim, g.verdict())
	}
	w.Flush()
}

// pointGoal is the goal that gate looks at.
const pointGoal = "1"

// gate fails when the point select costs more than ratio times haproxy's.
func (r *report) gate(ratio float64) error {
	for _, g := range r.goals {
		if g.number != pointGoal {
			continue
		}
		if !(g.got <= ratio) {
			return fmt.Errorf("a point select costs %.2f times haproxy's CPU, over the gate of %.2f", g.got, ratio)
		}
		fmt.Printf("\ngate: %.2f times haproxy's CPU, at most %.2f\n", g.got, ratio)
		return nil
	}
	return fmt.Errorf("the gate needs part points with 16 connections")
}
