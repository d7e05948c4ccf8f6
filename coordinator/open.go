package coordinator

import (
	"context"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/zkgrant/zkgrant/actors"
	"github.com/zkgrant/zkgrant/coordinator/internal/cache"
	"github.com/zkgrant/zkgrant/session"
)

// Connect is [Open] and [Coordinator.Ready]: it waits for the first session until ctx
// ends. If it fails, nothing is left open.
func Connect(ctx context.Context, servers string, options ...Option) (*Coordinator, error) {
	c, err := Open(servers, options...)
	if err != nil {
		return nil, err
	}
	if err := c.Ready(ctx); err != nil {
		parting, cancel := context.WithTimeout(context.WithoutCancel(ctx), partingTime)
		defer cancel()
		_ = c.Shutdown(parting) // without a session nothing can be left behind
		return nil, err
	}
	return c, nil
}

// Open returns a coordinator at once, and fails only if an argument is invalid. servers
// has ZooKeeper's form, `host:port,host:port/chroot`; names are resolved at each dial.
// Calls wait for the session as long as their contexts allow.
func Open(servers string, options ...Option) (*Coordinator, error) {
	parsed, err := session.ParseConnectString(servers)
	if err != nil {
		return nil, err
	}
	cfg := sessionConfig(options)
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	hooks, err := hooksOf(options)
	if err != nil {
		return nil, err
	}
	keep, err := cacheConfig(options)
	if err != nil {
		return nil, err
	}
	// Everything that can fail was checked above, because what is started from here on
	// would have to be stopped.
	hooks.configure(&cfg)
	keep.Strict = cfg.LossOnSuspend
	caches := cache.New(keep)
	// When the session's budget is used up, an idle cached lock makes room for a new
	// node.
	cfg.GiveUp = func() *session.Seat {
		seat, _ := caches.GiveUp().(*session.Seat)
		return seat
	}
	log := cfg.Logger
	cfg.Logger = limited(log)
	group := &actors.Group{}
	stream := actors.NewStream(group)
	stream.Overhear(fan(hooks.event, eventHook.OnEvent, nil))
	open, shut := context.WithCancel(context.Background())
	// Create the stream before the session, so that no event is missed.
	s := session.Open(parsed, cfg, group, stream.Publish)
	limit := min(cfg.Timeout, longestLimit)
	c := &Coordinator{
		open: open, shut: shut, group: group,
		cfg: cfg, hooks: hooks, chroot: parsed.Chroot, session: s,
		house: actors.House{
			Loop: s.Loop(), Stream: stream, Logger: cfg.Logger, Limit: limit, Level: zap.DebugLevel,
			Time: s.Time,
		},
		elections: actors.House{
			Loop: s.Loop(), Stream: stream, Logger: cfg.Logger, Limit: limit, Elects: true,
			Level: zap.InfoLevel,
			Time:  s.Time,
		},
		// The actors that keep cached nodes. Their events reach no caller and no log.
		keepers: actors.House{
			Loop: s.Loop(), Stream: actors.NewStream(group), Logger: zap.NewNop(), Time: s.Time,
		},
		caches: caches,
		live:   live{paths: map[string]*Acquisition{}}, parted: make(chan struct{}), ended: make(chan struct{}),
		waits: waitPath{log: log, servers: servers},
	}
	if log.Core() != zapcore.NewNopCore() {
		c.live.watch = c.watchWaits
	}
	return c, nil
}

// longestLimit is the maximum time that a Try waits for a server.
const longestLimit = 10 * time.Second

// partingTime is the time to end a session that is just being established when Connect
// fails.
const partingTime = 200 * time.Millisecond
