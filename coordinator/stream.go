package coordinator

// StreamOption changes what [Coordinator.Events] returns.
type StreamOption interface{ applyStream(*streamConfig) }

type streamConfig struct{ passive bool }

func streamConfigOf(options []StreamOption) (cfg streamConfig) {
	for _, o := range options {
		if o != nil {
			o.applyStream(&cfg)
		}
	}
	return cfg
}

type streamOption func(*streamConfig)

func (f streamOption) applyStream(c *streamConfig) { f(c) }

// Passive makes a stream for metrics, logs and boards: reading it changes nothing.
// A Grant that it delivers does not count as taken. It delivers each Grant, also
// one that nobody takes: the end of the wait takes that back, and its Ended says
// why.
func Passive() StreamOption { return streamOption(func(c *streamConfig) { c.passive = true }) }
