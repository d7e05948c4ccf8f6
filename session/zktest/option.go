package zktest

import zksession "github.com/zkgrant/zkgrant/session"

// Option makes a coordinator connect to this server in memory, regardless of its connect
// string. It is for tests in a synctest bubble, where sockets would stop the clock.
func (s *Server) Option() zksession.Option {
	return zksession.OptionFunc(func(c *zksession.Config) { c.Dial = s.DialContext })
}
