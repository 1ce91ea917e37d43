import type { QueryParser } from '../../shared/infra/schema/query-parser.ts';
import { MAX_FAULTS, type Schemas, type Validator } from '../../shared/infra/schema/validator.ts';
import type { BodyRule, Route } from '../route.ts';

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
    body: route.body && { validate: wholeValidator(route.body, schemas), maxBytes: route.body.maxBytes },
    parseQuery: schemas.queryParser(route.query),
    hasQuery: route.query !== undefined,
  };
}

/** A list of faults that was cut off says nothing about the rest of the body: then no further ones are looked for. */
function wholeValidator({ schema, moreFaults }: BodyRule, schemas: Pick<Schemas, 'validator'>): Validator {
  const validate = schemas.validator(schema);
  if (moreFaults === undefined) return validate;
  return (value) => {
    const faults = validate(value);
    if (faults.length === 0 || faults.length >= MAX_FAULTS) return faults;
    return [...faults, ...moreFaults(value, faults)];
  };
}
