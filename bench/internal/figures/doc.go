// Package figures has what the programs that measure share: statistics, files of results, and the style of tables and plots.
package figures
