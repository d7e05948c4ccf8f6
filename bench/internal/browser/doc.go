// Package browser controls a headless Chromium in tests: it opens pages, waits for what
// they show, and lists their requests.
//
// The tests of a package share one Chromium, which starts with the first page and ends
// with [Main]. Each page has its own profile: it shares no cookies, cache or storage with
// another page.
//
// Chromium is the program in the variable CHROMIUM, or chromium on PATH. Without it a
// test is skipped; with ZKGRANT_REAL=1 it fails.
package browser
