package zkprom

import (
	"time"

	"github.com/zkgrant/zkgrant/coordinator/telemetry/internal/words"
)

const (
	defaultInterval = 5 * time.Second
	defaultPatience = time.Second // Prometheus itself waits for 10 s
)

// Option configures [New].
type Option interface{ applyMetrics(cfg *config) }

// QueueOption configures [NewQueues].
type QueueOption interface{ applyQueues(cfg *config) }

// LabelOption configures [New] and [NewQueues].
type LabelOption interface {
	Option
	QueueOption
}

type labelOption func(*config)

func (o labelOption) applyMetrics(cfg *config) { o(cfg) }
func (o labelOption) applyQueues(cfg *config)  { o(cfg) }

type queueOption func(*config)

func (o queueOption) applyQueues(cfg *config) { o(cfg) }

type config struct {
	choose   func(path string) string
	most     int
	interval time.Duration
	patience time.Duration
}

func configOf(options []Option) config {
	cfg := config{most: words.DefaultMost}
	for _, o := range options {
		if o != nil {
			o.applyMetrics(&cfg)
		}
	}
	return cfg
}

func queueConfigOf(options []QueueOption) config {
	cfg := config{most: words.DefaultMost, interval: defaultInterval, patience: defaultPatience}
	for _, o := range options {
		if o != nil {
			o.applyQueues(&cfg)
		}
	}
	return cfg
}

// WithLockLabel sets the function that maps a path to the label `lock`, instead of the
// default of [WithMaxLocks]. It is called in Acquire, and at the Grant of a multi-lock,
// from any goroutine: it must be fast and must not call the library. A label that several
// locks share must contain a `*`; alerts about single locks leave it out. After 500
// labels (see WithMaxLocks), each further one is `*`.
func WithLockLabel(choose func(path string) string) LabelOption {
	return labelOption(func(cfg *config) { cfg.choose = choose })
}

// WithMaxLocks sets how many locks below one parent have their own label `lock`; the
// default is 50. Once there are more, `parent/*` replaces all of their labels for good,
// and takes over what they have counted. The total is limited to ten times as many
// labels, and to no less than 100; each further lock is `*`.
func WithMaxLocks(n int) LabelOption {
	return labelOption(func(cfg *config) { cfg.most = max(0, n) })
}

// WithPollInterval sets the minimum time between two reads by [NewQueues]; the default is
// 5 s. Scrapes within that time export the previous read again.
func WithPollInterval(d time.Duration) QueueOption {
	return queueOption(func(cfg *config) { cfg.interval = d })
}

// WithPollTimeout bounds how long a scrape waits for a read by [NewQueues]; the default
// is 1 s. The scrape then exports what is known.
func WithPollTimeout(d time.Duration) QueueOption {
	return queueOption(func(cfg *config) { cfg.patience = d })
}
