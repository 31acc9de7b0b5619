package backend

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// failpointVariable names the environment variable that makes Braid kill
// itself at a step of the commit protocol, for crash tests: "name", or "name:n"
// for the n-th time the step is reached.
const failpointVariable = "BRAID_FAILPOINT"

// The steps. Those with a number can be reached several times in one commit.
const (
	stepBeforePrepare   = "commit.before-prepare"     // nothing sent yet
	stepPreparing       = "commit.preparing"          // everything of the first phase sent, no answer read
	stepBranchPrepared  = "commit.branch-prepared"    // one more branch answered
	stepPrepared        = "commit.prepared"           // all branches answered, the decision row's answer not read
	stepBeforeDecision  = "commit.before-decision"    // the decision row is written, its COMMIT not sent
	stepDeciding        = "commit.deciding"           // its COMMIT sent, no answer read
	stepDecided         = "commit.decided"            // the decision is durable
	stepBranchSent      = "commit.branch-commit-sent" // one more branch told to commit
	stepHalfCommitted   = "commit.half-committed"     // one more branch has answered
	stepCommitted       = "commit.committed"          // all branches finished, the client not told
	stepAborting        = "commit.aborting"           // the commit failed, nothing rolled back yet
	stepRecoverFenced   = "recover.fenced"            // a decision was read or made
	stepRecoverFinished = "recover.branch-finished"   // one more branch finished
)

// step is reached at a named point; free when no failpoint is set.
func (k *Coordinator) step(name string) {
	if k.failpoint != nil {
		k.failpoint(name)
	}
}

// failpointFrom makes the hook that the text of failpointVariable asks for, nil
// for the empty text.
func failpointFrom(text string, die func()) (func(string), error) {
	if text == "" {
		return nil, nil
	}
	name, number, found := strings.Cut(text, ":")
	nth := int64(1)
	if found {
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%s=%q: want name or name:n", failpointVariable, text)
		}
		nth = n
	}
	var hits atomic.Int64
	return func(step string) {
		if step == name && hits.Add(1) == nth {
			die()
		}
	}, nil
}

// killSelf ends the process as a power cut of it would.
func killSelf() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}
