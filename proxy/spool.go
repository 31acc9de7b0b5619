package proxy

import (
	"errors"
	"io"
	"net"
	"os"
	"time"
)

// spoolMemoryMax is how much of a spool is kept in memory, in bytes; what is more
// goes to a file.
const spoolMemoryMax = 256 << 10

// spool takes an answer in place of a client and gives it back later: the rows
// of a cursor. It is a net.Conn so that all that answers clients can fill it. Its
// file has no name, so that it is gone with the process. First all is written,
// then it is read. Not safe for concurrent use.
type spool struct {
	mem  []byte
	file *os.File // nil: all is in mem
	size int64
	at   int64 // of the next read
}

func (s *spool) Write(p []byte) (int, error) {
	if s.file == nil && len(s.mem)+len(p) > spoolMemoryMax {
		if err := s.spill(); err != nil {
			return 0, err
		}
	}
	if s.file == nil {
		s.mem = append(s.mem, p...)
		s.size += int64(len(p))
		return len(p), nil
	}
	n, err := s.file.WriteAt(p, s.size)
	s.size += int64(n)
	return n, err
}

// spill moves what there is into a file.
func (s *spool) spill() error {
	f, err := os.CreateTemp("", "braid-cursor-*")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		return errors.Join(err, f.Close())
	}
	if _, err := f.WriteAt(s.mem, 0); err != nil {
		return errors.Join(err, f.Close())
	}
	s.file, s.mem = f, nil
	return nil
}

func (s *spool) Read(p []byte) (int, error) {
	if s.at >= s.size {
		return 0, io.EOF
	}
	var n int
	var err error
	if s.file == nil {
		n = copy(p, s.mem[s.at:])
	} else {
		n, err = s.file.ReadAt(p[:min(int64(len(p)), s.size-s.at)], s.at)
	}
	s.at += int64(n)
	return n, err
}

func (s *spool) Close() error {
	s.mem = nil
	s.size = 0
	if s.file == nil {
		return nil
	}
	f := s.file
	s.file = nil
	return f.Close()
}

func (s *spool) LocalAddr() net.Addr              { return &net.UnixAddr{Net: "unix"} }
func (s *spool) RemoteAddr() net.Addr             { return &net.UnixAddr{Net: "unix"} }
func (s *spool) SetDeadline(time.Time) error      { return nil }
func (s *spool) SetReadDeadline(time.Time) error  { return nil }
func (s *spool) SetWriteDeadline(time.Time) error { return nil }
