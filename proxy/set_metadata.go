package proxy

import (
	"strings"

	"braid/internal/mysql"
	"braid/router"
)

// metadataVariable is MySQL's session variable by which a client that has
// CLIENT_OPTIONAL_RESULTSET_METADATA does without column definitions. Nodes are never
// told: Braid needs the definitions.
const metadataVariable = "resultset_metadata"

// addMetadata is SET resultset_metadata = NONE | FULL.
func (j *setJob) addMetadata(x *router.Set) error {
	switch value := strings.ToUpper(x.Value); {
	case isDefault(x):
		j.bare = false
	case !x.Literal:
		return mysql.Errorf(1235, "This version of Braid doesn't yet support 'SET resultset_metadata to what is no literal'")
	case value == "FULL", value == "1":
		j.bare = false
	case value != "NONE" && value != "0":
		return mysql.Errorf(1231, "Variable '%s' can't be set to the value of '%s'", metadataVariable, x.Value)
	case j.s.caps&optionalMetadata == 0:
		return mysql.Errorf(3640, "The client doesn't support optional metadata transfer")
	default:
		j.bare = true
	}
	return nil
}
