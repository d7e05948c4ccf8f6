package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
	"github.com/zkgrant/zkgrant/bench/peers"
	"github.com/zkgrant/zkgrant/session/zktest/ensemble"
)

// javaContender is the source of the contender that uses Curator.
//
//go:embed Contender.java
var javaContender string

const contenderClass = "Contender"

func measure(ctx context.Context, progress io.Writer) (f *Figures, err error) {
	say := func(format string, args ...any) { fmt.Fprintf(progress, "timeline: "+format+"\n", args...) }
	server, err := peers.StartServer(ctx, "", 1, ensemble.Tick(tick))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	classes, err := os.MkdirTemp("", "zkgrant-timeline")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(classes)) }()
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	f = &Figures{
		Timeout: millis(timeout), Tick: millis(tick), Healed: millis(heal),
		Versions: map[string]string{
			"zookeeper": server.Version,
			"java":      server.JavaVersion,
			"go":        runtime.Version(),
			keyStock:    figures.ModuleVersion("github.com/go-zookeeper/zk"),
		},
		LeftOut: make(map[string]string),
	}
	curator, err := prepareCurator(ctx, server, classes)
	switch {
	case err == nil:
		f.Versions[keyCurator] = curator.Version
	case ctx.Err() != nil:
		return nil, err
	default:
		say("NO APACHE CURATOR: %v", err)
		f.LeftOut[keyCurator] = "It was there and could not be compiled against."
		if errors.Is(err, peers.ErrNotFound) {
			f.LeftOut[keyCurator] = "It was not there; bench/deps fetches it."
		}
	}
	script := &script{
		server: server.Addr, timeout: timeout, tick: tick, healed: heal, say: say,
		command: func(l library, at seat) *exec.Cmd {
			if l.Key == keyCurator {
				return curator.Command(classes, contenderClass, at.Addr, at.Path, fmt.Sprint(at.Timeout.Milliseconds()))
			}
			return exec.Command(self, at.arguments(l.Key)...)
		},
	}
	for _, l := range libraries() {
		if _, out := f.LeftOut[l.Key]; !out {
			script.contest = append(script.contest, l)
			f.Measured = append(f.Measured, Measured{library: l})
		}
	}
	for i := range runs {
		say("run %d of %d: %v of partition", i+1, runs, heal)
		// Clients ping once every third of the session timeout. In each run the cut comes
		// in a different part of that third, at a random time within the part. The phase
		// of the server's clock is random.
		part := timeout / 3 / runs
		settle := timeout/3 + time.Duration(i)*part + rand.N(part)
		cut, notes, err := script.play(ctx, fmt.Sprintf("/timeline/run%d", i), settle)
		if err != nil {
			return nil, fmt.Errorf("run %d: %w", i+1, err)
		}
		for j := range f.Measured {
			m := &f.Measured[j]
			m.Runs = append(m.Runs, newRun(m.Key, notes, cut))
		}
	}
	return f, nil
}

// prepareCurator compiles the contender in Java into the folder.
func prepareCurator(ctx context.Context, server *peers.Server, classes string) (peers.Curator, error) {
	curator, err := peers.FindCurator(server.Installation)
	if err != nil {
		return peers.Curator{}, err
	}
	return curator, curator.Compile(ctx, classes, contenderClass, javaContender)
}

func millis(d time.Duration) Millis { return Millis(d.Milliseconds()) }
