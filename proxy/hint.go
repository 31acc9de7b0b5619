package proxy

import "strings"

// hintDeadline makes the hint timeout end the statement under way, where the
// configuration would let it run longer.
func (s *Session) hintDeadline() {
	if s.hints.Timeout <= 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.mu.began.Add(s.hints.Timeout); s.mu.deadline.IsZero() || d.Before(s.mu.deadline) {
		s.mu.deadline = d
	}
}

// hintIsolation makes the hint isolation the level of the transaction that this
// statement is, or begins. One that is open keeps its level, and is behind the
// fence or not as before: the client is warned.
func (s *Session) hintIsolation() {
	if s.hints.ReadFence && (s.tx != nil || s.xaOpen != nil) {
		s.hints.Unknown = append(s.hints.Unknown, "read_fence (the transaction has begun)")
	}
	switch level := s.hints.Isolation; {
	case level == "":
	case s.tx != nil || s.xaOpen != nil:
		s.hints.Unknown = append(s.hints.Unknown, "isolation="+strings.ToLower(level)+" (the transaction has begun)")
	default:
		s.nextLevel = level
	}
}

// hintWarnings warns of hints that do nothing, behind the statement's own
// warnings, once.
func (s *Session) hintWarnings() uint16 {
	n := uint16(len(s.hints.Unknown))
	for _, word := range s.hints.Unknown {
		s.warnings = append(s.warnings, warning{"Warning", 1105, "Braid does nothing for the hint " + word})
	}
	s.hints.Unknown = nil
	s.warned += n
	return n
}
