// Package orderedmap has what `pulumi api` names of maps, all of which are empty.
package orderedmap

import "iter"

type Map[K comparable, V any] struct{}

func New[K comparable, V any]() *Map[K, V] { return &Map[K, V]{} }

func Len[K comparable, V any](*Map[K, V]) int { return 0 }

func (*Map[K, V]) Get(K) (value V, found bool) { return }

func (*Map[K, V]) GetOrZero(K) (value V) { return }

func (*Map[K, V]) Set(K, V) (before V, replaced bool) { return }

func (*Map[K, V]) Delete(K) (before V, deleted bool) { return }

func (*Map[K, V]) FromOldest() iter.Seq2[K, V] { return func(func(K, V) bool) {} }

func (*Map[K, V]) KeysFromOldest() iter.Seq[K] { return func(func(K) bool) {} }
