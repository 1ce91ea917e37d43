import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { HttpReply, HttpRequest } from '#testing/clients/call.ts';

type Call = (method: string, target: string, options?: HttpRequest & { door?: number }) => Promise<HttpReply>;

interface Described {
  operationId: string;
  requestBody?: object;
  responses: Record<string, { content?: Record<string, unknown> }>;
}

interface Operation extends Described {
  /** Method and path, such as `GET /v1/attempts/{attemptId}`. */
  route: string;
  pattern: RegExp;
  pointer: string;
}

export interface Document {
  paths: Record<string, Record<string, Described>>;
}

export type Api = ReturnType<typeof openApi>;

/** Statuses that a front door may answer before it has found a route. */
const UNROUTED = [404, 405, 408, 431];

/** Returns `call` with a check of each reply against the document. The returned function throws if a reply does not match. */
export async function checkedApi(call: Call): Promise<Call> {
  const api = openApi((await call('GET', '/openapi.json')).json as Document);
  return async (method, target, options) => {
    const reply = await call(method, target, options);
    const fault = api.faultOf(method, target, reply);
    if (fault !== null) throw new Error(fault);
    return reply;
  };
}

export function openApi(document: Document) {
  const ajv = new Ajv2020({ strict: false, strictNumbers: true, allErrors: true });
  addFormats.default(ajv);
  ajv.addSchema(document, 'openapi.json');
  const operations = operationsOf(document);
  const compiled = new Map<string, ValidateFunction>();

  function validatorOf(pointer: string): ValidateFunction {
    const known = compiled.get(pointer) ?? ajv.compile({ $ref: `openapi.json#${pointer}` });
    compiled.set(pointer, known);
    return known;
  }

  function find(method: string, target: string): Operation | undefined {
    const path = target.split('?')[0] ?? '';
    return operations.find(({ route, pattern }) => route.startsWith(`${method} `) && pattern.test(path));
  }

  /**
   * Returns how a reply differs from the document, null if it does not. The operation must list the status, and the body must match that
   * status's schema, without further fields.
   */
  function faultOf(method: string, target: string, reply: Pick<HttpReply, 'status' | 'headers' | 'text' | 'json'>) {
    const about = `${method} ${target.split('?')[0]?.slice(0, 200)} ${reply.status}`;
    if (reply.headers['x-request-id'] === undefined) return `${about}: no X-Request-Id`;
    if (reply.headers['x-content-type-options'] !== 'nosniff') return `${about}: may be sniffed`;
    if (reply.json !== undefined && reply.headers['content-type'] !== 'application/json; charset=utf-8') {
      return `${about}: content type ${reply.headers['content-type']}`;
    }
    const found = find(method, target);
    if (found === undefined) {
      return UNROUTED.includes(reply.status) ? null : `${about}: no such operation in the OpenAPI document`;
    }
    const response = found.responses[reply.status];
    if (response === undefined) return `${about} is not in the OpenAPI document: ${reply.text.slice(0, 300)}`;
    if (response.content?.['application/json'] === undefined) return null;
    const validate = validatorOf(`${found.pointer}/responses/${reply.status}/content/application~1json/schema`);
    if (validate(reply.json)) return null;
    return `${about}: ${ajv.errorsText(validate.errors)}\n${reply.text.slice(0, 2_000)}`;
  }

  return { routes: operations.map(({ route }) => route), find, faultOf };
}

function operationsOf(document: Document): Operation[] {
  const operations = Object.entries(document.paths).flatMap(([path, item]) => {
    const pattern = new RegExp(`^${path.replace(/\./g, '\\.').replace(/\{\w+\}/g, '[A-Za-z0-9._:-]{1,128}')}$`);
    const at = `/paths/${path.replace(/~/g, '~0').replace(/\//g, '~1').replace(/[{}]/g, encodeURIComponent)}`;
    return Object.entries(item).map(([method, described]) => {
      return { ...described, route: `${method.toUpperCase()} ${path}`, pattern, pointer: `${at}/${method}` };
    });
  });
  // Literals come before parameters, as in the product: /v1/student/attempts before /v1/student/{id}.
  return operations.sort((a, b) => Number(a.route.includes('{')) - Number(b.route.includes('{')));
}
