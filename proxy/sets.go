package proxy

import "sync"

// setMemory remembers what nodes made of literals in SET, so that a SET that
// every session sends costs a node nothing. Safe for concurrent use.
type setMemory struct {
	mu struct {
		sync.Mutex
		values map[setKey]string
	}
}

// setKey is everything the meaning of a literal in SET depends on.
type setKey struct {
	name, text string
	mariadb    bool
	charset    string
}

// setMemoryMax is how many answers are kept; when there are more, the memory
// starts anew.
const setMemoryMax = 4096

func (m *setMemory) get(k setKey) (string, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.mu.values[k]
	return v, ok
}

func (m *setMemory) put(k setKey, v string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mu.values == nil || len(m.mu.values) >= setMemoryMax {
		m.mu.values = map[setKey]string{}
	}
	m.mu.values[k] = v
}

// clear forgets everything: the nodes may have changed.
func (m *setMemory) clear() {
	m.mu.Lock()
	m.mu.values = nil
	m.mu.Unlock()
}
