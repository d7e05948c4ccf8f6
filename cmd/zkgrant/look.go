package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/columns"
	"github.com/zkgrant/zkgrant/cmd/zkgrant/internal/text"
	"github.com/zkgrant/zkgrant/coordinator"
	"github.com/zkgrant/zkgrant/events"
	"github.com/zkgrant/zkgrant/session"
)

// interrupted returns a context that ends on a terminating signal. Its cause carries the
// exit code. From a second later, no write to the command's output waits for the reader.
func interrupted(cmd *cobra.Command) (context.Context, context.CancelFunc) {
	const patience = time.Second
	ctx, end := context.WithCancelCause(context.Background())
	late, giveUp := context.WithCancelCause(context.Background())
	cmd.SetOut(output{cmd.OutOrStdout(), late})
	signals := make(chan os.Signal, 1)
	catch(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT) // by default, QUIT exits with 2 after a stack dump
	go func() {
		defer signal.Stop(signals)
		select {
		case sig := <-signals:
			number, _ := sig.(syscall.Signal)
			cause := &exit{code: codeSignal + int(number), interrupted: number == syscall.SIGINT}
			end(cause)
			time.AfterFunc(patience, func() { giveUp(cause) })
		case <-ctx.Done():
		}
	}()
	return ctx, func() { end(context.Canceled) }
}

// output is the standard output of a command. A write that blocks, because nobody reads,
// fails when ctx ends.
type output struct {
	io.Writer

	ctx context.Context
}

func (o output) Write(text []byte) (n int, err error) {
	text = slices.Clone(text) // a write that blocks keeps reading it
	written := make(chan struct{})
	var count int
	var failure error
	go func() {
		defer close(written)
		count, failure = o.Writer.Write(text)
	}()
	select {
	case <-written:
		return count, failure
	case <-o.ctx.Done():
		return 0, context.Cause(o.ctx)
	}
}

func newQueue(s *settings) *cobra.Command {
	var held bool
	cmd := &cobra.Command{
		Use:   "queue PATH",
		Short: "Show the holders and waiters of a lock",
		Long: `queue shows the holders of a lock and then its waiters, in order, for any kind of lock and
any library. SINCE is how long each one has been in the queue, holders included; for a
holder of a semaphore, it is how long it has held. "may be idle" marks the node of a cached
lock, which stays in the queue even while the lock is not used.`,
		GroupID:           "look",
		Args:              arguments(1, 1, "give one path"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := interrupted(cmd)
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
				all, err := contendersAt(ctx, c, args[0])
				if err != nil {
					return err
				}
				if held {
					if len(holdersAmong(all)) == 0 {
						return &exit{code: codeNotHeld}
					}
					return nil
				}
				return s.printQueue(cmd.OutOrStdout(), args[0], all)
			})
		},
	}
	cmd.Flags().BoolVar(&held, "held", false, "print nothing; exit with 0 if the lock is held, with 1 if not")
	return cmd
}

// contendersAt returns the holders and waiters at one path. A path that is used as two
// kinds of lock has two queues, one after the other.
func contendersAt(ctx context.Context, c *coordinator.Coordinator, path string) (all []events.Contender, err error) {
	for lock, err := range c.Locks(session.RootOnly(ctx), path) {
		if err != nil {
			return nil, err
		}
		all = append(all, lock.Contenders...)
	}
	return all, context.Cause(ctx)
}

// rootOf returns where a walk begins: at the argument, if there is one, otherwise at the
// chroot.
func (s *settings) rootOf(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	// Missing or malformed servers are reported later.
	if servers, err := session.ParseConnectString(s.servers); s.servers != "" && err == nil && servers.Chroot == "" {
		return "", errors.New("give the path to search below, since every node there is read; / is the whole tree")
	}
	return "/", nil
}

// rate holds --rate, a flag of the commands that walk through a tree once.
type rate struct{ reads int }

func (r *rate) bind(cmd *cobra.Command) {
	cmd.Flags().IntVar(&r.reads, "rate", session.DefaultReadRate, "the most reads to send per second")
}

// set applies the rate to this process.
func (r *rate) set() error {
	if r.reads < 1 {
		return fmt.Errorf("--rate must be at least 1, not %d", r.reads)
	}
	session.SetReadRate(r.reads)
	return nil
}

func holdersAmong(all []events.Contender) []events.Contender {
	return slices.DeleteFunc(slices.Clone(all), func(c events.Contender) bool { return !c.Holding })
}

// contenderLine is a Contender as JSON.
type contenderLine struct {
	Path    string    `json:"path"`
	Kind    string    `json:"kind"`
	Node    string    `json:"node"`
	Holding bool      `json:"holding"`
	Since   time.Time `json:"since"`
	Session string    `json:"session"`
	Token   int64     `json:"token,omitempty"`
	Permits int       `json:"permits,omitempty"`
	Idle    bool      `json:"may_be_idle,omitempty"`
	Data    string    `json:"data,omitempty"`
}

func kindOf(c events.Contender) string { return text.Kind(c.Kind) }

func lineOf(path string, c events.Contender) contenderLine {
	return contenderLine{path, kindOf(c), c.Node, c.Holding, c.Since, sessionID(c.Session), c.Token, c.Permits, text.MayBeIdle(c), string(c.Data)}
}

func (s *settings) printQueue(out io.Writer, path string, all []events.Contender) error {
	if s.json {
		for _, c := range all {
			if err := object(out, lineOf(path, c)); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(out, "no holders, no waiters")
		return err
	}
	t := newTable(out, "STATE", "KIND", "SINCE", "TOKEN", "SESSION", "WHO")
	for _, c := range all {
		color := ""
		if c.Holding {
			color = green
		}
		t.row(color, text.State(c), kindOf(c), since(time.Since(c.Since)), strconv.FormatInt(c.Token, 10), sessionID(c.Session), string(c.Data))
	}
	return t.print()
}

// table aligns columns, and makes their text safe to print on a terminal.
type table struct {
	out     io.Writer
	color   bool
	columns []columns.Column
	cells   [][]string
	colors  []string  // a color for each row
	headed  bool      // the column names were printed
	printed time.Time // when rows were last printed, or the table was created
}

func newTable(out io.Writer, names ...string) *table {
	to := out
	if o, ok := out.(output); ok {
		to = o.Writer
	}
	file, ok := to.(*os.File)
	t := &table{out: out, printed: time.Now(), color: ok && isTerminal(file) && os.Getenv("NO_COLOR") == ""}
	for _, name := range names {
		t.columns = append(t.columns, columns.Column{Name: name})
	}
	return t
}

func (t *table) row(color string, cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	t.cells, t.colors = append(t.cells, cells), append(t.colors, color)
}

// waiting reports whether there are rows that have not been printed for a second.
func (t *table) waiting() bool { return len(t.cells) > 0 && time.Since(t.printed) >= time.Second }

// print prints the rows added since the last call. Columns never become narrower.
func (t *table) print() error {
	for i := range t.columns {
		for _, row := range t.cells {
			t.columns[i].Least = max(t.columns[i].Least, columns.Width(row[i]))
		}
	}
	lines := columns.Align(t.columns, t.cells, math.MaxInt)
	headed := t.headed
	t.headed, t.printed, t.cells = true, time.Now(), nil
	defer func() { t.colors = nil }()
	for i, line := range lines {
		switch {
		case i == 0 && headed:
			continue
		case t.color && i == 0:
			line = dim + line + plain
		case t.color && t.colors[i-1] != "":
			line = t.colors[i-1] + line + plain
		}
		if _, err := fmt.Fprintln(t.out, line); err != nil {
			return err
		}
	}
	return nil
}

func newList(s *settings) *cobra.Command {
	var limit rate
	cmd := &cobra.Command{
		Use:   "ls [ROOT]",
		Short: "List the locks below a path",
		Long: `ls walks the tree below a path, and lists every lock that has a holder or a waiter, and every
semaphore. It prints them as it finds them. Without a path it walks the tree below the chroot
of --servers, if there is one.`,
		Aliases:           []string{"list"},
		GroupID:           "look",
		Args:              arguments(0, 1, "give at most one path"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			root, err := s.rootOf(args)
			if err = errors.Join(err, limit.set()); err != nil {
				return err
			}
			ctx, cancel := interrupted(cmd)
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
				return s.list(ctx, cmd.OutOrStdout(), c, root)
			})
		},
	}
	limit.bind(cmd)
	return cmd
}

// lockLine is a LockInfo as JSON.
type lockLine struct {
	Path       string          `json:"path"`
	Kind       string          `json:"kind"`
	Size       int             `json:"size,omitempty"`
	Holders    int             `json:"holders"`
	Waiters    int             `json:"waiters"`
	Oldest     float64         `json:"oldest_wait_seconds,omitempty"`
	Contenders []contenderLine `json:"contenders"`
}

func (s *settings) list(ctx context.Context, out io.Writer, c *coordinator.Coordinator, root string) error {
	t := newTable(out, "PATH", "KIND", "SIZE", "HELD BY", "WAIT", "OLDEST WAIT")
	found, failed := 0, 0
	defer s.hide()
	ctx = session.WithProgress(ctx, func(p session.Progress) {
		if t.waiting() {
			s.give()
			_ = t.print() // an error will recur with the next line
		}
		s.progress("%d nodes read, %d locks found", p.Nodes, found)
	})
	for lock, err := range c.Locks(ctx, root) {
		if err != nil {
			if ctx.Err() != nil || errors.Is(err, coordinator.ErrInvalid) { // the walk did not finish
				return err
			}
			failed++
			s.say(report{Event: "failed", Path: lock.Path, Error: err.Error(), loud: true, bad: true}, "%s: %v", lock.Path, err)
			continue
		}
		found++
		line := summary(lock)
		if s.json {
			s.give()
			if err := object(out, line); err != nil {
				return err
			}
			continue
		}
		size, oldest := "", ""
		if lock.Size > 0 {
			size = strconv.Itoa(lock.Size)
		}
		if line.Waiters > 0 {
			oldest = since(time.Duration(line.Oldest * float64(time.Second)))
		}
		t.row("", lock.Path, line.Kind, size, holders(lock), strconv.Itoa(line.Waiters), oldest)
	}
	s.give()
	if found == 0 && failed == 0 {
		switch there, err := s.exists(ctx, root); {
		case err != nil:
			return err
		case !there:
			return &exit{code: codeNotThere, err: fmt.Errorf("%s does not exist: check the spelling; the path of an unused lock is deleted", root)}
		}
	}
	switch {
	case s.json:
	case found > 0:
		if err := t.print(); err != nil {
			return err
		}
	case failed == 0:
		if _, err := fmt.Fprintln(out, "no locks"); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("the list is incomplete; paths that could not be read: %d", failed)
	}
	return nil
}

func summary(lock events.LockInfo) lockLine {
	line := lockLine{Path: lock.Path, Kind: lock.Kind.String(), Size: lock.Size, Contenders: []contenderLine{}}
	for _, c := range lock.Contenders {
		if c.Holding {
			line.Holders++
		} else {
			line.Waiters++
			line.Oldest = max(line.Oldest, time.Since(c.Since).Seconds())
		}
		line.Contenders = append(line.Contenders, lineOf(lock.Path, c))
	}
	return line
}

// holders names the first holder, and counts the others.
func holders(lock events.LockInfo) string {
	all := holdersAmong(lock.Contenders)
	if len(all) == 0 {
		return "-"
	}
	who := printable(string(all[0].Data))
	if who == "" {
		who = "a holder without data"
	}
	if all := []rune(who); len(all) > 40 {
		who = string(all[:39]) + "…"
	}
	if text.MayBeIdle(all[0]) {
		who += ", may be idle"
	}
	if len(all) > 1 {
		who += fmt.Sprintf(" and %d more", len(all)-1)
	}
	return who
}

func newWatch(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "watch PATH",
		Short: "Print what changes in a lock's queue",
		Long: `watch prints a line for each contender that arrives, holds the lock, or leaves, until it is
interrupted. It prints the first change at once. While the queue keeps changing, watch reads it
once per tenth of the --session-timeout, which is once a second by default: it misses contenders
that come and go in between.`,
		GroupID:           "look",
		Args:              arguments(1, 1, "give one path"),
		ValidArgsFunction: s.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, cancel := interrupted(cmd)
			defer cancel()
			return s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
				return s.watch(ctx, cmd.OutOrStdout(), c, args[0])
			})
		},
	}
}

// watch follows the lock at the path, whatever its kind: a queue, a semaphore, or the
// single node of an unfair lock.
func (s *settings) watch(ctx context.Context, out io.Writer, c *coordinator.Coordinator, path string) error {
	forms := [...]interface {
		Watch(ctx context.Context) <-chan []events.Contender
		Queue(ctx context.Context) ([]events.Contender, error)
	}{c.ReadWrite(path), c.Semaphore(path, 1), c.Unfair(path)}
	var seen [len(forms)]<-chan []events.Contender
	for i, form := range forms {
		seen[i] = form.Watch(ctx)
	}
	var before, after [len(forms)][]events.Contender
	for {
		var i int
		var open bool
		select {
		case after[0], open = <-seen[0]:
		case after[1], open = <-seen[1]:
			i = 1
		case after[2], open = <-seen[2]:
			i = 2
		}
		var err error
		if !open {
			_, err = forms[i].Queue(ctx) // says why
		}
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // it was interrupted, perhaps during the look
		case open:
		case errors.Is(err, coordinator.ErrKind):
			seen[i] = nil // the node at the path is the directory of a lock, not an unfair lock
		case err == nil:
			seen[i] = forms[i].Watch(ctx) // the reason is gone, perhaps with the directory
			after[i] = before[i]          // until it says more
		default:
			return err
		}
		for _, change := range changes(slices.Concat(before[:]...), slices.Concat(after[:]...)) {
			if err := s.printChange(out, path, change); err != nil {
				return err
			}
		}
		before = after
	}
}

// change is what happened to a contender between two looks.
type change struct {
	What string `json:"event"` // queued, granted or left
	events.Contender
}

// changes compares two listings of a queue. It returns first the contenders that left,
// then those that are new or now hold.
func changes(before, after []events.Contender) []change {
	var all []change
	at := func(queue []events.Contender, c events.Contender) int {
		return slices.IndexFunc(queue, func(other events.Contender) bool { return same(c, other) })
	}
	for _, c := range before {
		if at(after, c) < 0 {
			all = append(all, change{"left", c})
		}
	}
	for _, c := range after {
		i := at(before, c)
		switch {
		case c.Holding && (i < 0 || !before[i].Holding):
			all = append(all, change{"granted", c})
		case i < 0:
			all = append(all, change{"queued", c})
		}
	}
	return all
}

// same reports whether two listings show the same contender. A semaphore's contender gets
// another node when it is granted its permits, but keeps its token.
func same(a, b events.Contender) bool {
	if a.Token != 0 {
		return a.Session == b.Session && a.Token == b.Token
	}
	return a.Node == b.Node
}

func (s *settings) printChange(out io.Writer, path string, c change) error {
	now := time.Now()
	if s.json {
		return object(out, struct {
			Time  time.Time `json:"time"`
			Event string    `json:"event"`
			contenderLine
		}{now, c.What, lineOf(path, c.Contender)})
	}
	verb := map[string]string{"queued": "waits", "granted": "holds", "left": "has gone"}[c.What]
	idle := ""
	if c.What == "granted" && text.MayBeIdle(c.Contender) {
		idle = ", may be idle"
	}
	_, err := fmt.Fprintf(out, "%s  %-8s  %s  token %d%s\n", now.Format(time.TimeOnly), verb, printable(string(c.Data)), c.Token, idle)
	return err
}

// completePaths completes the paths of existing locks. For safety it leaves out paths
// that a shell would not take literally: bash inserts the common prefix of the candidates
// without quotes, and evaluates the line at the next Tab. Any client that may create
// nodes chooses their names.
func (s *settings) completePaths(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
	const patience = 2 * time.Second // the user waits at a prompt
	// ArgsLenAtDash does not count the dashes while the word right after them is
	// completed.
	behindDashes := slices.Contains(os.Args[:len(os.Args)-1], "--")
	if fromEnvironment(cmd.Root().PersistentFlags()) != nil || behindDashes {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	root := begun[:max(strings.LastIndex(begun, "/"), 0)]
	if root == "" {
		root = "/"
	}
	var found []string
	// An error only means fewer candidates.
	_ = s.ask(ctx, func(ctx context.Context, c *coordinator.Coordinator) error {
		for lock, err := range c.Locks(ctx, root) {
			if err == nil && strings.HasPrefix(lock.Path, begun) && inert(lock.Path) {
				found = append(found, lock.Path)
			}
		}
		return nil
	})
	return found, cobra.ShellCompDirectiveNoFileComp
}

// inert reports whether every shell takes the text literally.
func inert(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+:@%,=", r)
	})
}
