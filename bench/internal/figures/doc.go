// Package figures provides what the programs that measure have in common: statistics,
// files of results, and the style of tables and plots.
package figures
