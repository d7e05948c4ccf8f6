package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zkgrant/zkgrant/bench/internal/figures"
)

// playCommand, as the first argument, makes the program a contestant.
const playCommand = "play"

func main() { figures.Main("locks", run) }

func run(ctx context.Context, args []string, input io.Reader, output io.Writer) error {
	if len(args) > 0 && args[0] == playCommand {
		if len(args) != 3 {
			return fmt.Errorf("%s takes library and address, not %q", playCommand, args[1:])
		}
		return play(ctx, args[1], args[2], input, output)
	}
	flags := flag.NewFlagSet("locks", flag.ContinueOnError)
	flags.SetOutput(output)
	quick := flags.Bool("quick", false, "do less of everything, in less than five minutes")
	again := flags.Bool("draw", false, "write the tables and the plots of the results again, without measuring")
	all := parts()
	chosen := make([]bool, len(all))
	for i, p := range all {
		if p.flag != "" {
			flags.BoolVar(&chosen[i], p.flag, false, "measure "+p.subject+" only, and keep the other results")
		}
	}
	folder := flags.String("o", ".", "the `folder` of the results, RESULTS.md and the plots")
	if over, err := figures.Parse(flags, args); over {
		return err
	}
	everything := !slices.Contains(chosen, true)
	for i, p := range all {
		if *again || !everything && !chosen[i] {
			continue
		}
		r, err := p.measure(ctx, *quick, output)
		if err == nil {
			err = figures.Store(filepath.Join(*folder, p.file), r)
		}
		if err != nil {
			return err
		}
	}
	return render(*folder, output)
}

// section has the measurements of a part, which become a section of the page.
type section interface {
	write(page *strings.Builder)
	draw(folder string) error
}

type part struct {
	flag, subject string // for a part that can be measured alone
	file          string
	results       section // empty, to load into
	measure       func(ctx context.Context, quick bool, progress io.Writer) (section, error)
}

// parts returns all parts, in the order of the page.
func parts() []part {
	return []part{
		{file: "results.json", results: new(Results), measure: measure},
		{flag: "distance", subject: "by distance", file: "distance.json", results: new(Distance), measure: survey},
		{flag: "cached", subject: "cached locks", file: "cached.json", results: new(Cached), measure: measureCached},
	}
}

// render writes the page and the plots from the results in the folder. A part may be
// missing.
func render(folder string, output io.Writer) error {
	var page strings.Builder
	page.WriteString(title)
	var missing []error
	all := parts()
	for _, p := range all {
		err := figures.Load(filepath.Join(folder, p.file), p.results)
		if errors.Is(err, fs.ErrNotExist) {
			missing = append(missing, err)
			continue
		}
		if err == nil {
			p.results.write(&page)
			err = p.results.draw(folder)
		}
		if err != nil {
			return err
		}
	}
	if len(missing) == len(all) {
		return errors.Join(missing...)
	}
	if err := os.WriteFile(filepath.Join(folder, "RESULTS.md"), []byte(page.String()), 0o644); err != nil {
		return err
	}
	_, err := io.WriteString(output, page.String())
	return err
}
