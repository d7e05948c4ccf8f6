package coordinator

// StreamOption configures [Coordinator.Events].
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

// Passive makes a stream for metrics and logs: its Grants do not count as taken.
func Passive() StreamOption { return streamOption(func(c *streamConfig) { c.passive = true }) }
