import { openApi } from '#api/openapi.ts';
import { VERSION } from '#infra/config/config.ts';
import type { Schemas } from '#infra/schema/validator.ts';
import { allRoutes } from '#testing/doors/all-routes.ts';

/**
 * Returns the OpenAPI document from which the client is generated: every `/v1` route of every service and of operators. Routes of a
 * single process, such as its health, are left out: a client calls the cluster. So are envelopes, which no client sends or receives.
 */
export function clientDocument(schemas: Schemas): object {
  const routes = allRoutes().filter(({ path }) => path.startsWith('/v1/'));
  const called = routes.map(({ tag, ...route }) => (tag ? { ...route, tag: { ...tag, envelopes: undefined } } : route));
  return openApi({ routes: called, schemas, version: VERSION, title: 'examhall' });
}
