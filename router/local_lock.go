package router

// lockTables reads what follows LOCK TABLES.
func (l *localParser) lockTables(x *Local) (err error) {
	x.Op = OpLockTables
	for {
		t := TableLock{}
		if t.Table, err = l.name(); err != nil {
			return err
		}
		if l.punct('.') {
			t.Database = t.Table
			if t.Table, err = l.name(); err != nil {
				return err
			}
		}
		if l.take("AS") || !l.lockMode() {
			if t.Alias, err = l.name(); err != nil {
				return err
			}
		}
		switch {
		case l.take("READ"):
			t.Mode = "READ"
			if l.take("LOCAL") {
				t.Mode = "READ LOCAL"
			}
		case l.take("WRITE"):
			t.Mode = "WRITE"
			if l.mariadb() && l.take("CONCURRENT") {
				t.Mode = "WRITE CONCURRENT"
			}
		case l.mariadb() && l.take("LOW_PRIORITY"):
			t.Mode = "LOW_PRIORITY WRITE"
			if !l.take("WRITE") {
				return l.wrong()
			}
		default:
			return l.wrong()
		}
		x.Locks = append(x.Locks, t)
		if !l.punct(',') {
			break
		}
	}
	if w := l.word(); l.mariadb() && (w == "WAIT" || w == "NOWAIT") {
		x.Name = l.rest()
	}
	return nil
}

func (l *localParser) mariadb() bool { return l.r.flavour(l.q.Database) == MariaDB }

// lockMode tells whether the kind of lock begins at the current token, which is
// no alias then.
func (l *localParser) lockMode() bool {
	switch l.word() {
	case "READ", "WRITE", "LOW_PRIORITY":
		return true
	}
	return false
}
