import { spawnSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { violationsOf } from './check-layers.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');

/** Returns the violations of these files, as `where: reason`. */
function check(files: Record<string, string>): string[] {
  return violationsOf(new Map(Object.entries(files))).map(({ where, reason }) => `${where}: ${reason}`);
}

const FORBIDDEN: readonly [string, string, string, RegExp][] = [
  ['kernel → rules', 'shared/kernel/a.ts', '../attempt/b.ts', /kernel imports nothing of ours/],
  ['kernel → library', 'shared/kernel/a.ts', 'mongodb', /only shared\/infra\/mongo/],
  ['kernel → I/O', 'shared/kernel/a.ts', 'node:fs', /no I\/O/],
  ['kernel → bare I/O', 'shared/kernel/a.ts', 'fs', /name the folder/],
  ['rules → other rules', 'shared/attempt/a.ts', '../auth/b.ts', /another service/],
  ['rules → infra', 'shared/attempt/a.ts', '../infra/mongo/b.ts', /rules are pure/],
  ['rules → I/O', 'shared/attempt/deep/a.ts', 'node:timers/promises', /no I\/O/],
  ['rules → library', 'shared/attempt/a.ts', 'ajv', /only shared\/infra\/schema/],
  ['rules → infra by a subpath', 'shared/attempt/a.ts', '#infra/mongo/b.ts', /rules are pure/],
  ['rules → other rules by a subpath', 'shared/attempt/a.ts', '#shared/auth/b.ts', /another service/],
  ['infra → api', 'shared/infra/mongo/a.ts', '../../../api/b.ts', /stands below/],
  ['infra → workers', 'shared/infra/mongo/a.ts', '../../../workers/b.ts', /stands below/],
  ['infra → scripts', 'shared/infra/mongo/a.ts', '../../../scripts/b.ts', /not part of what runs/],
  ['api → client', 'api/attempt/a.ts', '../../clients/typescript/src/index.ts', /for callers of the server/],
  ['api → client by its name', 'api/attempt/a.ts', '@examhall/client', /for callers of the server/],
  ['mongodb elsewhere', 'api/attempt/a.ts', 'mongodb', /only shared\/infra\/mongo/],
  ['mongodb subpath elsewhere', 'workers/a.ts', 'mongodb/lib/x', /only shared\/infra\/mongo/],
  ['ioredis elsewhere', 'shared/infra/mongo/a.ts', 'ioredis', /only shared\/infra\/redis/],
  ['pino elsewhere', 'api/a.ts', 'pino', /only shared\/infra\/log/],
  ['bcrypt elsewhere', 'api/auth/a.ts', 'bcrypt', /only shared\/infra\/passwords/],
  ['jsonwebtoken elsewhere', 'api/http/a.ts', 'jsonwebtoken', /only shared\/infra\/\(\?:jwt\|channels\)/],
  ['password list elsewhere', 'api/auth/a.ts', '@zxcvbn-ts/language-common', /only shared\/infra\/passwords/],
  ['phone tables in another service', 'shared/attempt/a.ts', 'libphonenumber-js/min', /only shared\/auth/],
  ['phone tables in the kernel', 'shared/kernel/a.ts', 'libphonenumber-js/min', /only shared\/auth/],
  ['restify elsewhere', 'workers/a.ts', 'restify', /only api/],
  ['api → workers', 'api/attempt/a.ts', '../../workers/b.ts', /writes a command and rings/],
  ['workers → api', 'workers/grading/a.ts', '../../api/b.ts', /without any front door/],
  ['api service → other', 'api/attempt/a.ts', '../auth/b.ts', /another service/],
  ['api service → other rules', 'api/attempt/a.ts', '../../shared/auth/b.ts', /another service/],
  ['http → service', 'api/http/a.ts', '../attempt/b.ts', /knows none/],
  ['actor → actor', 'workers/grading/a.ts', '../upkeep/b.ts', /not each other/],
  ['actor → other rules', 'workers/grading/a.ts', '../../shared/notification/b.ts', /another service/],
  ['api root → service', 'api/a.ts', './attempt/b.ts', /only main\.ts mounts/],
  ['api root → service by a subpath', 'api/a.ts', '#api/operations/b.ts', /only main\.ts mounts/],
  ['workers root → actor', 'workers/main.ts', './grading/b.ts', /only actors\.ts lists/],
  ['mongo service → other', 'shared/infra/mongo/attempt/a.ts', '../auth/b.ts', /another service/],
  ['mongo service → other rules', 'shared/infra/mongo/attempt/a.ts', '#shared/auth/b.ts', /another service/],
  ['ground of mongo → folder', 'shared/infra/mongo/a.ts', './person/b.ts', /know none of the folders/],
  ['ground of mongo → folder by a subpath', 'shared/infra/mongo/a.ts', '#infra/mongo/schema/b.ts', /know none/],
  ['unknown package', 'api/a.ts', 'fast-check', /name the folder/],
  ['sandbox → test kit', 'scripts/sandbox/a.ts', '#testing/until.ts', /what users run stands without/],
  ['tool of users → bench', 'scripts/a.ts', '#scripts/bench/b.ts', /what users run stands without/],
  ['test helpers in production', 'workers/a.ts', '../scripts/testing/b.ts', /not part of what runs/],
  ['a test', 'api/a.ts', './b.test.ts', /imported by nothing/],
];

for (const [name, file, specifier, reason] of FORBIDDEN) {
  t.test(`the layer check refuses the import ${name}`, async (t) => {
    const found = check({ [file]: `// first line\nimport { x } from '${specifier}';\n` });
    t.equal(found.length, 1);
    t.match(found[0], reason);
    t.match(found[0], `${file}:2`);
  });
}

const ALLOWED: readonly [string, string][] = [
  ['shared/kernel/a.ts', "import { randomBytes } from 'node:crypto';"],
  ['shared/kernel/a.ts', "import { Decimal } from 'decimal.js';"],
  ['shared/attempt/a.ts', "import { x } from '../kernel/b.ts';\nimport type { Y } from '../generated/c.ts';"],
  ['shared/auth/a.ts', "import { x } from 'libphonenumber-js/min';"],
  ['shared/infra/jwt/a.ts', "import jwt from 'jsonwebtoken';"],
  ['shared/attempt/a.ts', "import type { Collection } from 'mongodb';"],
  ['shared/infra/mongo/a.ts', "import { x } from '../../attempt/b.ts';\nimport { MongoClient } from 'mongodb';"],
  [
    'shared/infra/mongo/attempt/a.ts',
    "import { x } from '../mailbox/b.ts';\nimport { y } from '../c.ts';\nimport { z } from '#shared/attempt/d.ts';",
  ],
  ['shared/infra/mongo/schema/a.ts', "import { x } from '../attempt/b.ts';\nimport { y } from '../auth/c.ts';"],
  [
    'api/attempt/a.ts',
    "import { x } from '../http/b.ts';\nimport { y } from '../route.ts';\nimport { z } from '../../shared/attempt/b.ts';",
  ],
  ['api/main.ts', "import { x } from './attempt/routes.ts';\nimport restify from 'restify';"],
  ['api/a.ts', "import { x } from './http/b.ts';\nimport { y } from './c.ts';"],
  ['api/classifier/settlement.ts', "import { x } from '../../workers/settlement/actor.ts';"],
  ['workers/actors.ts', "import { x } from './grading/actor.ts';"],
  ['workers/main.ts', "import { x } from './actors.ts';"],
  ['workers/upkeep/a.ts', "import { x } from '../../shared/auth/b.ts';"],
  ['api/a.ts', "import type { Db } from 'mongodb';"],
  ['scripts/sandbox/a.ts', "import { x } from '#scripts/sandbox/http/b.ts';\nimport { y } from '@examhall/client';"],
];

for (const [file, text] of ALLOWED) {
  t.test(`the layer check allows in ${file}: ${text.split('\n')[0]}`, async (t) => {
    t.strictSame(check({ [file]: text }), []);
  });
}

t.test('the layer check refuses a folder that its tables do not name, once', async (t) => {
  const twoFiles = { 'workers/sweeping/a.ts': '', 'workers/sweeping/b.ts': '' };
  t.match(check(twoFiles), [/^workers\/sweeping: .*SERVICE_OF_ACTOR/]);
  t.match(check({ 'api/school/a.ts': '' }), [/^api\/school: .*FOLDERS/]);
  t.match(check({ 'shared/infra/mongo/school/a.ts': '' }), [/^shared\/infra\/mongo\/school: .*MONGO_SHARED/]);
});

const HIDDEN: readonly [string, string][] = [
  ['require', "const a = require('./a.ts');"],
  ['require', "import a = require('./a.ts');"],
  ['createRequire', "import { createRequire } from 'node:module';"],
  ['getBuiltinModule', "process.getBuiltinModule('fs');"],
  ['import()', "await import('./a' + '.ts');"],
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the source of a template
  ['import()', 'await import(`./${name}.ts`);'],
];

for (const [what, text] of HIDDEN) {
  t.test(`the layer check refuses in production: ${text}`, async (t) => {
    t.match(check({ 'api/a.ts': text }), [/^api\/a\.ts:1: production names each import/]);
    t.match(violationsOf(new Map([['api/a.ts', text]])), [{ what: new RegExp(what.replace('()', '')) }]);
    t.strictSame(check({ 'api/a.ts': `// ${text}\n/** ${text} */\n` }), [], 'in a comment');
  });
}

t.test('the layer check refuses to normalize a text outside the kernel', async (t) => {
  const texts = ["a.normalize('NFC');", "a.b?.normalize('NFD');", "a['normalize']();", 'const f = a.normalize;'];
  for (const text of texts) {
    t.match(check({ 'api/a.ts': `\n${text}` }), [/^api\/a\.ts:2: only shared\/kernel\/text\.ts normalizes/], text);
    t.strictSame(check({ 'shared/kernel/text.ts': text }), [], text);
  }
  t.strictSame(check({ 'api/a.ts': 'normalize(a); const normalize = { normalize: 1 }; a[normalize];' }), []);
});

t.test('the layer check allows a pure library in several folders', async (t) => {
  const files = { 'api/a.ts': "import pLimit from 'p-limit';", 'workers/a.ts': "import pLimit from 'p-limit';" };
  t.strictSame(check(files), []);
});

/** Returns a source with this many lines and these imports. */
function sourceOf(lines: number, ...imports: string[]): string {
  const head = imports.map((specifier, index) => `import { x${index} } from '${specifier}';`);
  return [...head, ...Array.from({ length: lines - head.length }, () => '//')].join('\n');
}

t.test('the layer check refuses small files with one reader', async (t) => {
  const reader = { 'api/reader.ts': sourceOf(40, './scrap.ts') };
  t.match(check({ ...reader, 'api/scrap.ts': sourceOf(39) }), [/^api\/scrap\.ts: a noun that api\/reader\.ts alone/]);
  t.strictSame(check({ ...reader, 'api/scrap.ts': sourceOf(40) }), [], 'large enough');
  const two = { ...reader, 'api/other.ts': sourceOf(40, './scrap.ts'), 'api/scrap.ts': sourceOf(1) };
  t.strictSame(check(two), [], 'two readers');
  const apart = { 'api/attempt/reader.ts': sourceOf(40, '../scrap.ts'), 'api/scrap.ts': sourceOf(1) };
  t.strictSame(check(apart), [], 'the only reader is in another folder');
});

t.test('the layer check finds imports in every syntax, with their lines', async (t) => {
  const source = [
    "import a from '../workers/a.ts';",
    'import {',
    '  type B,',
    "} from '#workers/b.ts';",
    "import '#workers/c.ts';",
    "export { d } from '#workers/d.ts';",
    "export type { E } from '#workers/e.ts';",
    "export * as f from '#workers/f.ts';",
    "const g = await import('#workers/g.ts');",
    'const h = await import(`#workers/h.ts`);',
    "import i, * as j from '#workers/i.ts' with { type: 'json' };",
    "const text = 'from'; // import k from '#workers/k.ts';",
    "import type { Db } from 'mongodb';",
  ].join('\n');
  t.strictSame(
    violationsOf(new Map([['api/a.ts', source]])).map(({ where, what }) => `${where} ${what}`),
    [1, 2, 5, 6, 7, 8, 9, 10, 11].map((line, at) => `api/a.ts:${line} workers/${'abcdefghi'[at]}.ts`),
  );
});

t.test(
  'Biome refuses circles, of types too, undeclared and development packages, require, and long files',
  async (t) => {
    const root = mkdtempSync(path.join(os.tmpdir(), 'examhall-layers-'));
    t.teardown(() => rmSync(root, { recursive: true, force: true }));
    const config = JSON.parse(readFileSync(path.join(ROOT, 'biome.json'), 'utf8'));
    writeFileSync(path.join(root, 'biome.json'), JSON.stringify({ ...config, vcs: undefined, $schema: undefined }));
    cpSync(path.join(ROOT, 'package.json'), path.join(root, 'package.json'));
    const long = Array.from({ length: 301 }, (_, n) => `export const n${n} = ${n};`).join('\n');
    const planted: Record<string, string> = {
      'api/a.ts': "import { b } from './b.ts';\n\nexport const a: unknown = b;\n",
      'api/b.ts': "import type { a } from './a.ts';\n\nexport const b: typeof a = 1;\n",
      'scripts/a.ts': "import { b } from '#scripts/b.ts';\n\nexport const a: unknown = b;\n",
      'scripts/b.ts': "import type { a } from './a.ts';\n\nexport const b: typeof a = 1;\n",
      'workers/c.ts': "export { default as c } from 'fast-check';\n",
      'workers/d.ts': "export { default as d } from 'left-pad';\n",
      'workers/c.test.ts': "export { default as c } from 'fast-check';\n",
      'shared/attempt/e.ts': "export const e = require('./c.ts');\n",
      'shared/infra/f.ts': `${long}\n`,
      'scripts/f.ts': `${long}\n`,
    };
    for (const [file, source] of Object.entries(planted)) {
      mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
      writeFileSync(path.join(root, file), source);
    }
    const biome = path.join(ROOT, 'node_modules/.bin/biome');
    const { stdout, stderr } = spawnSync(process.execPath, [biome, 'lint', '--colors=off'], {
      cwd: root,
      encoding: 'utf8',
    });
    const found = `${stdout}${stderr}`.matchAll(
      /^(\S+?):\d+:\d+ lint\/\w+\/(noImportCycles|noCommonJs|noExcessiveLinesPerFile|noUndeclaredDependencies)/gm,
    );
    t.strictSame(Array.from(found, ([, file, rule]) => `${file} ${rule}`).sort(), [
      'api/a.ts noImportCycles',
      'api/b.ts noImportCycles',
      'scripts/a.ts noImportCycles',
      'scripts/b.ts noImportCycles',
      'shared/attempt/e.ts noCommonJs',
      'shared/infra/f.ts noExcessiveLinesPerFile',
      'workers/c.ts noUndeclaredDependencies',
      'workers/d.ts noUndeclaredDependencies',
    ]);
  },
);
