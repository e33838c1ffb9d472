// Package v3 has what `pulumi api` names of a document.
package v3

import (
	"github.com/pb33f/libopenapi/datamodel/high/base"
	"github.com/pb33f/libopenapi/orderedmap"
	"go.yaml.in/yaml/v4"
)

type Document struct {
	Components *Components
	Info       *base.Info
	Paths      *Paths
}

type Components struct {
	Schemas *orderedmap.Map[string, *base.SchemaProxy]
}

type Paths struct {
	PathItems *orderedmap.Map[string, *PathItem]
}

type PathItem struct {
	Get, Put, Post, Delete, Head, Patch *Operation
}

type Operation struct {
	Deprecated                        *bool
	Description, OperationId, Summary string
	Extensions                        *orderedmap.Map[string, *yaml.Node]
	Parameters                        []*Parameter
	RequestBody                       *RequestBody
	Responses                         *Responses
	Tags                              []string
}

type Parameter struct {
	Name, In, Description string
	Required              *bool
	Schema                *base.SchemaProxy
}

type RequestBody struct {
	Content *orderedmap.Map[string, *MediaType]
}

type MediaType struct {
	Schema *base.SchemaProxy
}

type Responses struct {
	Codes   *orderedmap.Map[string, *Response]
	Default *Response
}

type Response struct {
	Description string
	Content     *orderedmap.Map[string, *MediaType]
}
