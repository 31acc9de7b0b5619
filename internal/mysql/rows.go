package mysql

// Row is the payload of one row packet in wire form: a text row (each column a
// length-encoded string, 0xFB for NULL) or a binary row (0x00, NULL bitmap,
// values); which one, its Rows says.
type Row []byte

// Rows is a stream of rows.
//
// Next returns the next row, valid until the following Next or Close. The end
// is io.EOF; any other error (an *Error from the server, or a broken
// connection) also ends the stream, and repeats on every further Next. Close
// gives up what was not read; it is called exactly once by whoever obtained
// the stream, also after the end or an error.
type Rows interface {
	Columns() []Column
	// Binary tells whether rows are in the binary protocol's form.
	Binary() bool
	Next() (Row, error)
	Close() error
}
