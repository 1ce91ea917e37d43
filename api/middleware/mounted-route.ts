import type { Route } from '#api/route.ts';
import type { QueryParser, Schemas, Validator } from '#infra/schema/validator.ts';

/** A route with everything that a request needs of it compiled, so that a request looks nothing up by name. */
export interface MountedRoute {
  route: Route;
  body: { validate: Validator; maxBytes: number } | undefined;
  parseQuery: QueryParser;
  /** Without a query schema an empty query needs no reading. */
  hasQuery: boolean;
}

/** @throws Error at boot when the route names a schema that does not exist */
export function mountRoute(route: Route, schemas: Pick<Schemas, 'validator' | 'queryParser'>): MountedRoute {
  return {
    route,
    body: route.body && { validate: schemas.validator(route.body.schema), maxBytes: route.body.maxBytes },
    parseQuery: schemas.queryParser(route.query),
    hasQuery: route.query !== undefined,
  };
}
