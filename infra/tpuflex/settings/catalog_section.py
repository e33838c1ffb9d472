"""The type of the section that holds a user's rows of the catalog."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from tpuflex.catalog.catalog import Catalog, builtin
from tpuflex.catalog.rows import CatalogRows


def _with_builtin(rows: CatalogRows) -> Catalog:
    return builtin().extended(rows)


def _own_rows(catalog: Catalog) -> dict[str, Any]:
    return catalog.own.model_dump(mode="json", exclude_defaults=True)


class _AsRows:
    """Reads rows as the catalog that they extend, and writes the catalog as those rows."""

    def __get_pydantic_core_schema__(self, _: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        rows = core_schema.no_info_after_validator_function(
            _with_builtin, handler.generate_schema(CatalogRows)
        )
        return core_schema.json_or_python_schema(
            json_schema=rows,
            python_schema=core_schema.union_schema([core_schema.is_instance_schema(Catalog), rows]),
            serialization=core_schema.plain_serializer_function_ser_schema(_own_rows),
        )


#: Rows in the stack file; the whole catalog in the settings.
CatalogSection = Annotated[Catalog, _AsRows()]
