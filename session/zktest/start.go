package zktest

// TB is the part of testing.TB that [Start] uses. It is declared here so that programs
// that link this package do not link package testing.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// Start returns a running server that is closed when the test and its subtests have
// ended. It fails the test if the server cannot be started.
//
// In a testing/synctest bubble, pass the bubble's own *testing.T: the server must be
// closed before the bubble ends.
func Start(tb TB, settings ...Setting) *Server {
	tb.Helper()
	s, err := New(settings...)
	if err != nil {
		tb.Fatalf("zktest: start: %v", err)
		return nil
	}
	tb.Cleanup(s.Close)
	return s
}
