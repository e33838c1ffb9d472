// Package base has what `pulumi api` names of schemas.
package base

import (
	"github.com/pb33f/libopenapi/orderedmap"
	"go.yaml.in/yaml/v4"
)

type Low struct{}

func (*Low) Hash() uint64 { return 0 }

type SchemaProxy struct{}

func (*SchemaProxy) Schema() *Schema { return nil }

func (*SchemaProxy) GetReference() string { return "" }

func (*SchemaProxy) IsReference() bool { return false }

type Discriminator struct {
	PropertyName string
	Mapping      *orderedmap.Map[string, string]
}

type DynamicValue[A, B any] struct {
	A A
	B B
}

func (*DynamicValue[A, B]) IsA() bool { return false }

func (*DynamicValue[A, B]) IsB() bool { return false }

type Info struct {
	Version string
}

type Schema struct {
	AdditionalProperties *DynamicValue[*SchemaProxy, bool]
	AllOf, AnyOf, OneOf  []*SchemaProxy
	Default              *yaml.Node
	Description          string
	Discriminator        *Discriminator
	Enum                 []*yaml.Node
	Extensions           *orderedmap.Map[string, *yaml.Node]
	Format               string
	Items                *DynamicValue[*SchemaProxy, bool]
	MaxLength, MinLength *int64
	Maximum, Minimum     *float64
	MultipleOf           *float64
	Nullable, ReadOnly   *bool
	Pattern              string
	Properties           *orderedmap.Map[string, *SchemaProxy]
	Required             []string
	Type                 []string
}

func (*Schema) GoLow() *Low { return nil }

func (*Schema) MarshalJSONInline() ([]byte, error) { return nil, nil }
