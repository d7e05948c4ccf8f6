package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zkgrant/zkgrant/events/eventstest"
	"github.com/zkgrant/zkgrant/session/zktest"
)

// systemd is a systemd instance for one test, with the units of docs/systemd.md, and a
// server.
type systemd struct {
	*rig

	runtime string // XDG_RUNTIME_DIR
	units   string // the folder with the units
	quicker time.Duration
}

// startSystemd starts `systemd --user` as a child, in its own namespaces and cgroup,
// because it expects a machine that was booted with systemd, and so that nothing is left
// behind. The script ends with its standard input.
func startSystemd(t *testing.T, work string, more ...string) *systemd {
	t.Helper()
	for _, program := range []string{"/usr/lib/systemd/systemd", "/usr/bin/systemctl", "/usr/bin/unshare"} {
		if _, err := os.Stat(program); err != nil {
			t.Skip(err)
		}
	}
	needsRoot(t)                         // to give systemd its own cgroup
	folder, err := os.MkdirTemp("", "s") //nolint:usetesting // a socket's path must be short
	eventstest.Must(t, err)
	t.Cleanup(func() { eventstest.Check(t, os.RemoveAll(folder)) })
	// The work has half a second to spare, and systemd's timers may be 250 ms late. So the
	// times can be halved, but no further.
	quicker := time.Duration(eventstest.Amount(2, 1))
	if nothing(t) > 10*time.Millisecond { // a busy machine needs the times of the page
		quicker = 1
	}
	g := double(t, zktest.Tick(500*time.Millisecond/quicker))
	s := &systemd{g, filepath.Join(folder, "run"), filepath.Join(folder, "units"), quicker}
	eventstest.Must(t, os.Mkdir(s.runtime, 0o700))
	eventstest.Must(t, os.Mkdir(s.units, 0o700))
	for _, target := range []string{"basic", "shutdown"} {
		eventstest.Must(t, os.WriteFile(filepath.Join(s.units, target+".target"), []byte("[Unit]\n"), 0o600))
	}
	const script = `
set -e
trap '' HUP INT TERM
mkdir -p /run/systemd
mount -t tmpfs tmpfs /run/systemd
mkdir /run/systemd/system
mount -t cgroup2 cgroup2 /sys/fs/cgroup
group=/sys/fs/cgroup/zkgrant-test-$$
mkdir $group
sh -c 'echo $$ > '$group'/cgroup.procs; exec /usr/lib/systemd/systemd --user --unit=basic.target' &
echo started
read -r end || true
echo 1 > $group/cgroup.kill
wait
for again in 1 2 3 4 5 6 7 8 9; do find $group -depth -type d -exec rmdir {} + 2> /dev/null && exit; sleep 0.1; done
`
	shell := exec.Command("/usr/bin/unshare", "--mount", "sh", "-c", script)
	shell.Env = append(s.environment(), "PATH="+os.Getenv("PATH"))
	in, err := shell.StdinPipe()
	eventstest.Must(t, err)
	p := eventstest.Begin(t, shell)
	t.Cleanup(func() {
		eventstest.Check(t, in.Close())
		p.Exits(0)
	})
	eventstest.Eventually(t, "the script has started systemd, or failed", func() bool {
		return p.Count("started") > 0 || p.Count("unshare:")+p.Count("mount:")+p.Count("mkdir:") > 0
	})
	if p.Count("started") == 0 {
		t.Skipf("systemd cannot be started here: %s", p)
	}
	eventstest.Eventually(t, "systemd is ready", func() bool { return s.control("is-active", "basic.target") == "active" })
	s.install(filepath.Dir(program)+"/"+strings.ReplaceAll(work, "FILE", s.file), more...)
	return s
}

func (s *systemd) environment() []string {
	return []string{"XDG_RUNTIME_DIR=" + s.runtime, "SYSTEMD_UNIT_PATH=" + s.units, "HOME=" + s.runtime}
}

// control runs systemctl and returns its output.
func (s *systemd) control(args ...string) string {
	cmd := exec.Command("/usr/bin/systemctl", append([]string{"--user"}, args...)...)
	cmd.Env = s.environment()
	out, _ := cmd.CombinedOutput() // is-active exits with an error for an inactive unit
	return strings.TrimSpace(string(out))
}

// must is control for commands that print nothing.
func (s *systemd) must(args ...string) {
	s.t.Helper()
	if said := s.control(args...); said != "" {
		s.t.Fatal(said)
	}
}

// install writes the units of the page, with the test's servers and programs, and with
// all times divided by quicker.
func (s *systemd) install(work string, more ...string) {
	s.t.Helper()
	page, err := os.ReadFile("../../docs/systemd.md")
	eventstest.Must(s.t, err)
	units := regexp.MustCompile("(?s)```ini\n# /etc/systemd/system/(\\S+)\n(.*?)```").FindAllStringSubmatch(string(page), -1)
	if len(units) != 3 {
		s.t.Fatalf("the page has %d units, want 3", len(units))
	}
	times := regexp.MustCompile(`((?:Sec=|--lead ))(\d+)(ms|\n)`)
	environment := fmt.Sprintf(
		"ZKGRANT_SERVERS=%s ZKGRANT_SESSION_TIMEOUT=%v ZKGRANT_TICK_TIME=%v ZKGRANT_VERBOSE=true",
		s.servers, 10*time.Second/s.quicker, 500*time.Millisecond/s.quicker)
	ours := strings.NewReplacer(append(more,
		"ZKGRANT_SERVERS=zk1:2181,zk2:2181,zk3:2181", environment,
		"/usr/local/bin/zkgrant", program, "/usr/local/bin/indexer", work, "/usr/local/bin/work", work,
		"/locks/indexer", lockPath, "/locks/disk", lockPath,
	)...)
	for _, unit := range units {
		text := times.ReplaceAllStringFunc(unit[2], func(found string) string {
			part := times.FindStringSubmatch(found)
			n, err := strconv.Atoi(part[2])
			eventstest.Must(s.t, err)
			if part[3] == "\n" {
				n *= 1000
			}
			return fmt.Sprintf("%s%dms%s", part[1], time.Duration(n)/s.quicker, strings.TrimLeft(part[3], "ms"))
		})
		eventstest.Must(s.t, os.WriteFile(filepath.Join(s.units, unit[1]), []byte(ours.Replace(text)), 0o600))
	}
	s.must("daemon-reload")
}

// starts starts the unit and waits until it works.
func (s *systemd) starts(unit string) {
	s.t.Helper()
	s.must("start", "--no-block", unit)
	s.works(unit)
}

// works waits until the unit's work writes to the file.
func (s *systemd) works(unit string) {
	s.t.Helper()
	eventstest.Eventually(s.t, "the work of "+unit, func() bool { return count(s.t, s.file, "work") > 0 }, s.status(unit))
}

func (s *systemd) status(unit string) func() string {
	return func() string { return s.control("status", "--no-pager", "--full", unit) }
}

const indexer, disk = "indexer.service", "disk-lock.service"

// TestUnits runs the units of the page on systemd. Whatever ends the lock of a unit, its
// work is dead before the next holder starts. Then the unit queues and works again.
func TestUnits(t *testing.T) {
	t.Parallel()
	signal := func(sig syscall.Signal, supervisor bool) func(*rig, int) {
		return func(g *rig, pid int) {
			pids := []int{pid}
			if supervisor {
				pids = append(pids, childOf(g.t, pid))
			}
			for _, pid := range pids {
				eventstest.Check(g.t, syscall.Kill(pid, sig))
			}
		}
	}
	mutes := func(g *rig, _ int) { mute(g, nil) }
	const deaf, obedient, leader = "part work FILE deaf", "part work FILE obedient", "part leader FILE deaf"
	for i, test := range []struct {
		name, unit, work string
		ends             func(*rig, int)
		more             []string
	}{
		// These two also run without ZKGRANT_FULL.
		{"one unit, the lease runs out, deaf", indexer, deaf, mutes, nil},
		{"two units, the lease runs out, deaf", disk, deaf, mutes, nil},

		{"one unit, the lease runs out, obedient", indexer, obedient, mutes, nil},
		{"one unit, run is killed", indexer, deaf, signal(syscall.SIGKILL, false), nil},
		{"one unit, run and its supervisor are killed", indexer, leader, signal(syscall.SIGKILL, true), nil},
		{"the same, mixed", indexer, leader, signal(syscall.SIGKILL, true), []string{
			"KillMode=control-group", "KillMode=mixed", "TimeoutStopSec=", "TimeoutStopSec=60\n#",
		}},
		{"one unit, run and its supervisor are halted", indexer, leader, signal(syscall.SIGSTOP, true), nil},
		{"two units, the lease runs out, obedient", disk, obedient, mutes, nil},
		{"two units, hold gets TERM", disk, deaf, signal(syscall.SIGTERM, false), nil},
		{"two units, hold is killed", disk, deaf, signal(syscall.SIGKILL, false), nil},
		{"two units, hold is halted", disk, deaf, signal(syscall.SIGSTOP, false), nil},
		{"two units, a revocation", disk, deaf, func(g *rig, _ int) { g.begin("revoke --grace 5s " + lockPath) },
			[]string{"hold --lead", "hold --revocable --lead"}},
	} {
		if i >= eventstest.Amount(2, 12) {
			break
		}
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s := startSystemd(t, test.work, test.more...)
			s.starts(test.unit)
			pid, err := strconv.Atoi(s.control("show", test.unit, "--value", "-p", "MainPID"))
			if err != nil || pid == 0 {
				t.Fatalf("%s has the main process %d, %v", test.unit, pid, err)
			}
			_, holder := s.first()
			next := s.begin("run -v --shell "+lockPath+" --",
				"echo next >> "+s.file+"; sleep 0.1; echo later >> "+s.file+"; exec sleep 600")
			next.Await(t, "1 ahead", 1)
			test.ends(s.rig, pid)
			later := func() bool { return count(t, s.file, "later") > 0 }
			eventstest.Eventually(t, "the next holder", later, s.status(test.unit))
			text, err := os.ReadFile(s.file)
			eventstest.Must(t, err)
			_, beside, _ := strings.Cut(string(text), "next\n")
			eventstest.Equal(t, strings.Count(beside, "work"), 0, "lines of the work beside the next holder")
			next.Send(syscall.SIGTERM)
			s.Mute(holder, false)
			eventstest.Must(t, os.Remove(s.file))
			s.works(test.unit)
		})
	}
}

// A single unit is active while it waits, so it delays nothing. A pair of units is not
// active while it waits, and the work starts at the grant. Stopping a unit is not a
// failure, whether it waits or works.
func TestUnitsThatWait(t *testing.T) {
	t.Parallel()
	s := startSystemd(t, "part work FILE obedient")
	for unit, want := range map[string]string{indexer: "active", disk: "activating"} {
		first := s.rig.works("run --session-timeout 10s " + lockPath + " -- part wait")
		s.waits(unit, want)
		s.stops(unit)
		s.waits(unit, want)
		s.stop(first, syscall.SIGUSR2, 5)
		s.works(unit)
		s.stops(unit) // the unit releases the lock once the work has ended
		s.nodes(0, "when the unit is stopped")
		eventstest.Must(t, os.Remove(s.file))
	}
}

// waits starts the unit, whose lock is held, and waits until it is in the queue, and in
// this state.
func (s *systemd) waits(unit, state string) {
	s.t.Helper()
	if unit == indexer {
		s.must("start", unit) // this waits until the unit is active
	} else {
		s.must("start", "--no-block", unit)
	}
	eventstest.Eventually(s.t, unit+" is "+state+", and waits", func() bool { // in this order: a start clears the status
		return s.control("is-active", unit) == state &&
			s.control("show", unit, "--value", "-p", "StatusText") == "waiting for "+lockPath+", 1 ahead"
	}, s.status(unit))
	eventstest.Equal(s.t, s.control("is-active", "disk-work.service"), "inactive",
		"the state of the work while the lock is waited for")
}

// stops stops the unit, and checks that it has not failed.
func (s *systemd) stops(unit string) {
	s.t.Helper()
	s.must("stop", unit)
	eventstest.Equal(s.t, s.control("is-active", unit), "inactive", "the state of %s, which was stopped", unit)
}
