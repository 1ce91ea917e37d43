import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { productionSources } from '#testing/production-sources.ts';
import { INDEXES } from './indexes.ts';
import { DECLARATIONS, linksBy, PERSONAL_FIELDS } from './personal-fields.ts';

const ROOT = path.resolve(import.meta.dirname, '../../../..');

t.test('every collection that production code opens is declared', (t) => {
  const sources = productionSources();
  const constants = new Map(
    [...sources.values()].flatMap((text) =>
      [...text.matchAll(/const ([A-Z_]+) = '([a-z_]+)'/g)].map((match) => [match[1], match[2]] as const),
    ),
  );
  const opened = [...sources].flatMap(([file, text]) =>
    [...text.matchAll(/\.collection(?:<[^(]*>)?\(([^)]*)\)/g)].map(([, name = '']) => ({ file, name })),
  );
  t.ok(opened.length > 30);
  const names = opened.flatMap(({ file, name }) => {
    const literal = /^'(.*)'$/.exec(name)?.[1] ?? constants.get(name);
    if (literal !== undefined) return [literal];
    t.match(file, /mongo\/(mailbox|operations|person|probe|schema)\//, `${name} is a variable`);
    return [];
  });
  t.strictSame(
    [...new Set(names)].filter((name) => !(name in PERSONAL_FIELDS)),
    [],
  );
  // A collection that nothing opens is left over in the register.
  const known = new Set([...names, ...INDEXES.map(({ collection }) => collection)]);
  t.strictSame(
    DECLARATIONS.filter(([name]) => !known.has(name)).map(([name]) => name),
    [],
  );
  t.end();
});

t.test('every link is a declared field that leads an index', (t) => {
  for (const { collection, field } of linksBy('person', 'email', 'attempt', 'notification')) {
    t.ok((field.split('.')[0] ?? '') in PERSONAL_FIELDS[collection].fields, `${collection}.${field}`);
    const leads = INDEXES.some(
      (index) =>
        index.collection === collection &&
        Object.keys(index.keys)[0] === field &&
        index.options?.partialFilterExpression === undefined,
    );
    t.ok(leads || field === '_id', `${collection} has an index on ${field}`);
  }
  t.end();
});

const PLANTED = `
import { ATTEMPT_FIELDS } from '#infra/mongo/schema/personal-fields/attempt.ts';
import type { Declaration } from '#infra/mongo/schema/personal-fields/rules.ts';
import type { DeclaredIndex } from '#infra/mongo/schema/indexes.ts';
import type { Attempt } from '#shared/attempt/attempt.ts';
interface Grown extends Attempt { nickname: string }
export const grown = ATTEMPT_FIELDS.attempts satisfies Declaration<Grown>;
export const index: DeclaredIndex = { collection: 'student_photos', name: 'of_student', keys: { studentId: 1 } };
`;

t.test('a new field of a row and a new collection with an index do not compile until they are declared', (t) => {
  mkdirSync(path.join(ROOT, '.cache'), { recursive: true });
  const folder = mkdtempSync(path.join(ROOT, '.cache/planted-'));
  t.teardown(() => rmSync(folder, { recursive: true }));
  writeFileSync(path.join(folder, 'planted.ts'), PLANTED);
  writeFileSync(
    path.join(folder, 'tsconfig.json'),
    JSON.stringify({
      extends: path.join(ROOT, 'tsconfig.json'),
      include: ['planted.ts', '../../shared/infra/**/*.d.ts'],
    }),
  );
  const tsc = path.join(ROOT, 'node_modules/.bin/tsc');
  const env = { PATH: process.env.PATH };
  const { stdout, status } = spawnSync(process.execPath, [tsc, '--noEmit', '-p', folder], { encoding: 'utf8', env });
  t.not(status, 0);
  t.match(stdout, /planted\.ts.*\n?.*nickname/s, 'the field');
  t.match(stdout, /"?student_photos"?/, 'the collection');
  t.equal(stdout.match(/error TS/g)?.length, 2, stdout);
  t.end();
});
