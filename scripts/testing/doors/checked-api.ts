import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import type { HttpReply, HttpRequest } from '#testing/clients/http-call.ts';

type Call = (method: string, target: string, options?: HttpRequest & { door?: number }) => Promise<HttpReply>;

interface Operation {
  pattern: RegExp;
  pointer: string;
  responses: Record<string, { content?: Record<string, unknown> }>;
}

interface Document {
  paths: Record<string, Record<string, { responses: Operation['responses'] }>>;
}

/** Statuses that a front door may answer before it has found a route. */
const UNROUTED = [404, 405, 408, 431];

/**
 * Returns `call` with a check of each reply against the product's own OpenAPI document. The operation must list the status, and the
 * body must match that status's schema, without further fields. The returned function throws if a reply does not match.
 */
export async function checkedApi(call: Call): Promise<Call> {
  const document = (await call('GET', '/openapi.json')).json as Document;
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

  function judge(method: string, target: string, reply: HttpReply): void {
    const path = target.split('?')[0] ?? '';
    const about = `${method} ${path.slice(0, 200)} ${reply.status}`;
    if (reply.headers['x-request-id'] === undefined) throw new Error(`${about}: no X-Request-Id`);
    if (reply.headers['x-content-type-options'] !== 'nosniff') throw new Error(`${about}: may be sniffed`);
    if (reply.json !== undefined && reply.headers['content-type'] !== 'application/json; charset=utf-8') {
      throw new Error(`${about}: content type ${reply.headers['content-type']}`);
    }
    const found = operations.get(method)?.find(({ pattern }) => pattern.test(path));
    if (found === undefined) {
      if (!UNROUTED.includes(reply.status)) throw new Error(`${about}: no such operation in the OpenAPI document`);
      return;
    }
    const response = found.responses[reply.status];
    if (response === undefined) throw new Error(`${about} is not in the OpenAPI document: ${reply.text.slice(0, 300)}`);
    if (response.content?.['application/json'] === undefined) return;
    const validate = validatorOf(`${found.pointer}/responses/${reply.status}/content/application~1json/schema`);
    if (validate(reply.json)) return;
    throw new Error(`${about}: ${ajv.errorsText(validate.errors)}\n${reply.text.slice(0, 2_000)}`);
  }

  return async (method, target, options) => {
    const reply = await call(method, target, options);
    judge(method, target, reply);
    return reply;
  };
}

function operationsOf(document: Document): Map<string, Operation[]> {
  const operations = new Map<string, Operation[]>();
  for (const [path, item] of Object.entries(document.paths)) {
    // The sort below puts literals before parameters, as the product does: /v1/student/attempts before /v1/student/{id}.
    const pattern = new RegExp(`^${path.replace(/\./g, '\\.').replace(/\{\w+\}/g, '[A-Za-z0-9._:-]{1,128}')}$`);
    const at = `/paths/${path.replace(/~/g, '~0').replace(/\//g, '~1').replace(/[{}]/g, encodeURIComponent)}`;
    for (const [method, { responses }] of Object.entries(item)) {
      const name = method.toUpperCase();
      const operation = { pattern, pointer: `${at}/${method}`, responses };
      operations.set(name, [...(operations.get(name) ?? []), operation]);
    }
  }
  for (const list of operations.values()) {
    list.sort((a, b) => Number(a.pointer.includes('%7B')) - Number(b.pointer.includes('%7B')));
  }
  return operations;
}
