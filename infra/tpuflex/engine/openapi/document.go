// Package libopenapi takes the place of github.com/pb33f/libopenapi in engines that tpuflex builds.
// It has what `pulumi api`, its one user, names, and reads no document: compiling all of it
// takes a seventh of a build (docs/adr/0034-what-an-engine-is-built-with.md).
package libopenapi

import (
	"errors"

	v3 "github.com/pb33f/libopenapi/datamodel/high/v3"
)

type Document interface {
	BuildV3Model() (*DocumentModel[v3.Document], error)
}

type DocumentModel[T any] struct {
	Model T
}

func NewDocument([]byte) (Document, error) {
	return nil, errors.New(
		"tpuflex built this pulumi without `pulumi api`; Pulumi's own has it:" +
			" https://www.pulumi.com/docs/install/")
}
