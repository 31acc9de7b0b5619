package router

import "strings"

// Router turns statements into plans for one topology. It belongs to one
// generation; a new topology gets a new Router, and with it an empty plan
// cache. Safe for concurrent use.
type Router struct {
	topology *Topology
}

func hasWord(s, w string) bool {
	for _, f := range strings.Fields(s) {
		if f == w {
			return true
		}
	}
	return false
}
