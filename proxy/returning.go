package proxy

import (
	"slices"

	"braid/backend"
	"braid/internal/mysql"
	"braid/router"
)

// returned are the rows that a write answers with (RETURNING), as packets. They
// are kept until all of the write is done, since an error anywhere undoes it.
type returned struct {
	columns [][]byte // the column definitions; nil: none was read yet
	rows    []returnedRow
	bytes   int
}

// returnedRow is a row with its place among the statement's.
type returnedRow struct {
	at     int
	packet []byte
}

// readReturned reads the rows that a target answers with, whose first packet was
// read, and returns the packet behind them. Of copies the first one's count.
func (s *Session) readReturned(c *backend.Conn, first []byte, p *place, back *returned, t *router.Target, plan *router.Plan) ([]byte, error) {
	n, _, k := mysql.LenEncInt(first)
	if k == 0 {
		return nil, mysql.ErrMalformed
	}
	head := back.columns == nil
	copies := plan.Kind == router.KindBroadcast && !head
	for range n {
		def, err := c.ReadPacket()
		if err != nil {
			return nil, err
		}
		if head {
			if p.schema != p.database {
				def = s.renameSchema(def, p)
			}
			back.columns = append(back.columns, slices.Clone(def))
		}
	}
	for row := 1; ; row++ {
		packet, err := c.ReadPacket()
		if err != nil {
			return nil, err
		}
		if len(packet) > 0 && packet[0] == 0xff {
			return nil, mysql.ParseError(packet)
		}
		if len(packet) > 0 && packet[0] == 0xfe && len(packet) < mysql.PacketMax {
			if t.Rows > 0 && row != t.Rows+1 && plan.Kind != router.KindBroadcast {
				return nil, mysql.Errorf(1105, "shard %s returned %d rows of %d that were written", p.shard, row-1, t.Rows)
			}
			if back.bytes > s.gen.cfg.Proxy.GatherBytesMax {
				return nil, mysql.Errorf(1105, "a statement may bring together %d bytes at most (proxy.gather_bytes_max)", s.gen.cfg.Proxy.GatherBytesMax)
			}
			return packet, nil
		}
		if copies {
			continue
		}
		// The answer is read to its end, whatever it is: the leg lives on.
		if back.bytes += len(packet); back.bytes > s.gen.cfg.Proxy.GatherBytesMax {
			continue
		}
		at := len(back.rows)
		switch {
		case t.Rows == 1: // its shard may have other targets with a row each
			at = t.First + 1
		case t.Rows > 1:
			at = s.route.Row(t, row)
		}
		back.rows = append(back.rows, returnedRow{at, slices.Clone(packet)})
	}
}

// writeReturned answers with the rows, in the order of the statement's own.
func (s *Session) writeReturned(back *returned, warnings uint16) error {
	slices.SortStableFunc(back.rows, func(a, b returnedRow) int { return a.at - b.at })
	if err := s.columnCount(uint64(len(back.columns))); err != nil {
		return err
	}
	defs := back.columns
	if s.bare {
		defs = nil
	}
	for _, packet := range defs {
		if err := s.c.WritePacket(packet); err != nil {
			return err
		}
	}
	if err := s.writeColumnsEnd(0); err != nil {
		return err
	}
	for i := range back.rows {
		if err := s.c.WritePacket(back.rows[i].packet); err != nil {
			return err
		}
	}
	return s.writeEnd(0, warnings)
}
