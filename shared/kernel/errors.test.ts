import { parse } from '@babel/parser';
import { type Node, type ObjectExpression, traverseFast } from '@babel/types';
import t from 'tap';
import { refusalOf } from '#shared/classifier/provider/refusal.ts';
import { productionSources } from '#testing/checks/project-files.ts';
import { ERROR_GROUPS, ERRORS, type ErrorCode } from './errors.ts';

t.test('every code has a cause, a remedy and a message of its own, and belongs to one group', async (t) => {
  const codes = ERROR_GROUPS.flatMap(({ errors }) => Object.keys(errors));
  t.equal(new Set(codes).size, codes.length, 'no code is in two groups');
  const seen = new Map<string, string>();
  for (const [code, { cause, remedy, message, status }] of Object.entries(ERRORS)) {
    t.ok(status >= 400 && status < 600, code);
    t.not(message, cause, code);
    for (const text of [cause, remedy]) {
      t.match(text, /^[A-Z`].*\.$/, `${code}: whole sentences`);
      t.equal(seen.get(text), undefined, `${code} repeats a text`);
      seen.set(text, code);
    }
  }
});

t.test('the retry claim of a code agrees with the delays that the sources name for its replies', async (t) => {
  const carried = delaysInSources();
  for (const [code, { retry }] of Object.entries(ERRORS)) {
    const found = [...(carried.get(code) ?? [])];
    const namesDelay = found.some((delay) => delay !== 'never');
    // The server adds the header to an UNAVAILABLE that names no delay.
    const alwaysNames = code === 'UNAVAILABLE' || found.every((delay) => delay === 'always');
    const derived = !namesDelay ? ['no', 'yes'] : alwaysNames ? ['after'] : ['after-if-sent'];
    t.ok(derived.includes(retry), `${code}: "${retry}", but its replies name a delay: ${found.join(', ')}`);
  }
});

type Carried = 'always' | 'sometimes' | 'never';

/** Returns, by code, if the rejections in the production sources name a delay. */
function delaysInSources(): Map<string, Set<Carried>> {
  const carried = new Map<string, Set<Carried>>();
  const note = (code: string, delay: Carried) => carried.set(code, (carried.get(code) ?? new Set()).add(delay));
  for (const [file, source] of productionSources()) {
    if (!/rejected|ProviderFailure/.test(source)) continue;
    traverseFast(parse(source, { sourceType: 'module', plugins: ['typescript'], sourceFilename: file }), (node) => {
      if (node.type === 'ObjectExpression') {
        const code = stringOf(propertyOf(node, 'rejected'));
        if (code !== undefined) note(code, delayOf(node, 'retryAfter'));
      }
      if (
        node.type === 'NewExpression' &&
        node.callee.type === 'Identifier' &&
        node.callee.name === 'ProviderFailure'
      ) {
        const [code, , options] = node.arguments;
        const named = stringOf(code);
        if (named !== undefined && options?.type === 'ObjectExpression') note(named, delayOf(options, 'retryAfterMs'));
      }
    });
  }
  // A provider's own delay is passed on, if its refusal may pass. The codes of its refusals follow from the status.
  for (let status = 400; status < 600; status++) {
    const { code, nature } = refusalOf(status, {}, null);
    note(code, nature === 'passing' ? 'sometimes' : 'never');
  }
  return carried;
}

function delayOf(literal: ObjectExpression, name: string): Carried {
  if (propertyOf(literal, name) !== undefined) return 'always';
  const spread = literal.properties.filter((property) => property.type === 'SpreadElement');
  return spread.some((property) => mentions(property, name)) ? 'sometimes' : 'never';
}

function mentions(node: Node, name: string): boolean {
  let found = false;
  traverseFast(node, (inner) => {
    if (inner.type === 'ObjectExpression' && propertyOf(inner, name) !== undefined) found = true;
  });
  return found;
}

function propertyOf(literal: ObjectExpression, name: string): Node | undefined {
  for (const property of literal.properties) {
    if (property.type !== 'ObjectProperty' || property.key.type !== 'Identifier') continue;
    if (property.key.name === name) return property.value;
  }
  return undefined;
}

function stringOf(node: Node | undefined): ErrorCode | undefined {
  return node?.type === 'StringLiteral' && node.value in ERRORS ? (node.value as ErrorCode) : undefined;
}
