package figures

import (
	"maps"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
)

// Run returns what a page says about a run: how long it was, where the servers' data was,
// and the versions of everything.
func Run(quick, onRAMDisk bool, versions map[string]string) (length, disk, all string) {
	length, disk = "full", "on a RAM disk"
	if quick {
		length = "quick"
	}
	if !onRAMDisk {
		disk = "among the temporary files, as there was no RAM disk"
	}
	var each []string
	for _, name := range slices.Sorted(maps.Keys(versions)) {
		each = append(each, name+" "+versions[name])
	}
	return length, disk, strings.Join(each, ", ")
}

// Number formats a number with two or three significant digits, or a large one as an
// integer.
func Number(v float64) string {
	if math.Abs(v) >= 100 || v == math.Trunc(v) {
		return strconv.FormatFloat(math.Round(v), 'f', 0, 64)
	}
	if math.Abs(v) >= 10 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// ModuleVersion returns the version of a module in this program, or a question mark.
func ModuleVersion(path string) string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == path {
				return m.Version
			}
		}
	}
	return "?"
}
