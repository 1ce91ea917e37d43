import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { EVENT_QUEUES } from '#shared/kernel/command.ts';
import { productionSources } from '#testing/checks/project-files.ts';
import type { DeclaredIndex } from './index-rules.ts';
import { INDEXES } from './indexes.ts';
import { type Column, exportedFields } from './personal-fields/rules.ts';
import { DECLARATIONS, linksBy, PERSONAL_FIELDS } from './personal-fields.ts';
import { PLACEMENTS, type Placement, refusedOnShards } from './shard-keys.ts';

t.test('commands expire only if they are rejected, or events out that are done', async (t) => {
  const expiring = INDEXES.filter(
    ({ collection, options }) => collection === 'commands' && options?.expireAfterSeconds,
  );
  t.ok(expiring.every(({ keys }) => Object.keys(keys).join() === 'settledAt'));
  t.strictSame(
    expiring.map(({ options }) => [options?.partialFilterExpression, options?.expireAfterSeconds]),
    [[{ status: 'REJECTED' }, 7 * 86_400], ...EVENT_QUEUES.map((queue) => [{ queue, status: 'DONE' }, 30 * 86_400])],
  );
});

t.test('a sharded cluster accepts every unique index', (t) => {
  t.same(refusedOnShards(INDEXES), []);
  t.end();
});

t.test('a unique index that begins with other fields than the shard key is found', (t) => {
  const unique = (keys: DeclaredIndex['keys']): DeclaredIndex => {
    return { collection: 'attempts', name: Object.keys(keys).join(), keys, options: { unique: true } };
  };
  const refused = (placement: Placement, ...keys: DeclaredIndex['keys'][]) =>
    refusedOnShards(keys.map(unique), { ...PLACEMENTS, attempts: placement }).map(({ name }) => name);
  const [a, ab, ba] = [{ a: 1 }, { a: 1, b: 1 }, { b: 1, a: 1 }] as const;
  t.same(refused({ shardKey: ['a'] }, a, ab, ba), ['b,a']);
  t.same(refused({ shardKey: ['a', 'b'] }, a, ab, ba), ['a', 'b,a']);
  t.same(refused({ shardKey: ['_id'] }, a, { _id: 1, a: 1 }), ['a']);
  t.same(refused({ shardKey: ['a'] }, { _id: 1 }), [], 'MongoDB accepts `_id` first under every key');
  t.same(refused({ rows: 1, why: 'it is small' }, a, ab, ba), []);
  const plain: DeclaredIndex = { collection: 'attempts', name: 'plain', keys: ba };
  t.same(refusedOnShards([plain], { ...PLACEMENTS, attempts: { shardKey: ['a'] } }), []);
  t.end();
});

t.test('each field of a shard key is a field of its rows', (t) => {
  for (const [collection, { fields }] of DECLARATIONS) {
    const placement = PLACEMENTS[collection];
    if (!('shardKey' in placement)) continue;
    for (const field of placement.shardKey) t.ok(field === '_id' || field in fields, `${collection}: ${field}`);
  }
  t.end();
});

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
    t.match(file, /mongo\/((mailbox|operations|person|probe|schema)\/|writes\.ts)/, `${name} is a variable`);
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
import { declareRows } from '#infra/mongo/schema/personal-fields/rules.ts';
import type { DeclaredIndex } from '#infra/mongo/schema/index-rules.ts';
interface Row { _id: string; name: string; nickname?: string; stamp: string }
export const whole = declareRows<Row>()([], { deleted: '_id name nickname', technical: 'stamp' });
export const grown = declareRows<Row>()([], { deleted: '_id name', technical: 'stamp' });
export const misspelt = declareRows<Row>()([], { deleted: '_id name nickname nam', technical: 'stamp' });
export const twice = declareRows<Row>()([], { deleted: '_id name nickname', secret: 'name', technical: 'stamp' });
export const kept = declareRows<Row>()([], { deleted: '_id name nickname stamp', kept: { nick: 'it is short' } });
export const index: DeclaredIndex = { collection: 'student_photos', name: 'of_student', keys: { studentId: 1 } };
`;

/** The names of planted constants that do not compile, each with its error. */
function refusedBy(folder: string): Map<string | undefined, string> {
  const tsc = path.join(ROOT, 'node_modules/.bin/tsc');
  const env = { PATH: process.env.PATH };
  const { stdout } = spawnSync(process.execPath, [tsc, '--noEmit', '-p', folder], { encoding: 'utf8', env });
  const errors = stdout.split(/^(?=\S)/m).map((error) => [/planted\.ts\((\d+)/.exec(error)?.[1], error] as const);
  return new Map(
    errors.map(([line, error]) => [/const (\w+)/.exec(PLANTED.split('\n')[Number(line) - 1] ?? '')?.[1], error]),
  );
}

t.test('a table that does not name each field of its row once, and a collection without one, do not compile', (t) => {
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
  const refused = refusedBy(folder);
  t.strictSame(
    [...refused.keys()].sort(),
    ['grown', 'index', 'kept', 'misspelt', 'twice'],
    [...refused.values()].join(),
  );
  t.match(refused.get('grown'), /in no column.*"nickname"/s);
  t.match(refused.get('misspelt'), /no field of the row.*"nam"/s);
  t.match(refused.get('twice'), /in two columns.*"name"/s);
  t.match(refused.get('kept'), /nick/);
  t.match(refused.get('index'), /"?student_photos"?/);
  t.end();
});

/** Erasures that delete the rows behind a link. */
const DELETING: readonly unknown[] = ['delete', 'delete with its row'];

t.test('each column fits what an erasure does with the rows', (t) => {
  for (const [collection, { links, fields, kept }] of DECLARATIONS) {
    const used = (column: Column) => Object.keys(fields).filter((field) => fields[field] === column);
    const stay = [...used('pseudonym'), ...used('removed'), ...used('stays'), ...Object.keys(kept)];
    const deletes = links.map(({ erase }) => DELETING.includes(erase));
    const isFound = links.length > 0 && !links.some(({ erase }) => erase === 'with its attempt');
    if (isFound && !deletes.includes(false)) t.strictSame(stay, [], `every row of ${collection} is deleted`);
    if (isFound && !deletes.includes(true)) {
      const leaving = used('secret').filter((field) => kept[field] === undefined);
      t.strictSame([...used('deleted'), ...leaving], [], `no row of ${collection} is deleted`);
    }
  }
  t.end();
});

t.test('a link shows fields that its collection exports, and never a secret', (t) => {
  for (const { collection, shows = '' } of linksBy('person', 'email', 'attempt', 'notification'))
    t.strictSame(
      exportedFields(PERSONAL_FIELDS[collection], { shows }),
      shows.split(/\s+/).filter(Boolean),
      collection,
    );
  const { accounts } = PERSONAL_FIELDS;
  t.strictSame(exportedFields(accounts, { shows: 'email password stamp nickname' }), ['email']);
  t.notOk(exportedFields(accounts).includes('password'));
  t.end();
});
