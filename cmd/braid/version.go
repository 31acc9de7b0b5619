package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set by the linker (-X main.version); without it the build's own
// record says.
var version string

func printVersion(t terminal, c command, args []string) int {
	if _, code, ok := c.parse(t, c.flags(), args, 0); !ok {
		return code
	}
	fmt.Fprintf(t.out, "braid %s, %s, %s/%s\n", versionText(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return exitOK
}

func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}
