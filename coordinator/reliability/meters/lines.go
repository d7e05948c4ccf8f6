package main

import (
	"fmt"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// printRooms prints the lines of code, and the files, of each room. Comments, blank lines and
// tests do not count.
func printRooms() error {
	var lines, files int
	for _, room := range []string{"events", "recipes", "actors", "session", "session/internal", "coordinator"} {
		l, f, err := sizeOf(room)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stdout, "meters: %-20s %5d lines of code in %2d files\n", room, l, f)
		lines, files = lines+l, files+f
	}
	fmt.Fprintf(os.Stdout, "meters: %-20s %5d lines of code in %2d files\n", "together", lines, files)
	return nil
}

// sizeOf counts a folder. The folders below it count only for an internal one, and for
// coordinator, whose internal packages are its own.
func sizeOf(room string) (lines, files int, err error) {
	patterns := []string{room + "/*.go"}
	if strings.HasSuffix(room, "internal") {
		patterns = []string{room + "/*/*.go"}
	}
	if room == "coordinator" {
		patterns = append(patterns, room+"/internal/*/*.go")
	}
	for _, pattern := range patterns {
		names, err := filepath.Glob(pattern)
		if err != nil {
			return 0, 0, fmt.Errorf("listing %s: %w", pattern, err)
		}
		for _, name := range names {
			if strings.HasSuffix(name, "_test.go") || strings.HasSuffix(filepath.Dir(name), "test") {
				continue
			}
			source, err := os.ReadFile(name)
			if err != nil {
				return 0, 0, fmt.Errorf("reading: %w", err)
			}
			lines += codeLines(source)
			files++
		}
	}
	return lines, files, nil
}

// codeLines counts the lines that hold a token.
func codeLines(source []byte) int {
	set := token.NewFileSet()
	file := set.AddFile("", -1, len(source))
	var s scanner.Scanner
	s.Init(file, source, nil, 0)
	count, last := 0, 0
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return count
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // put in by the scanner
		}
		first := max(file.Line(pos), last+1)
		last = max(last, file.Line(pos)+strings.Count(literal, "\n"))
		count += max(0, last-first+1)
	}
}
