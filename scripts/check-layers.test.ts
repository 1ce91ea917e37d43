import { mkdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { checkTree } from '#scripts/layers/check-tree.ts';
import { findCycles } from '#scripts/layers/cycles.ts';
import { readImports } from '#scripts/layers/imports.ts';

const PACKAGE = JSON.stringify({
  dependencies: {
    mongodb: '1',
    pino: '1',
    restify: '1',
    ajv: '1',
    'decimal.js': '1',
    ioredis: '1',
    'p-limit': '1',
    bcrypt: '1',
    jsonwebtoken: '1',
    'rate-limiter-flexible': '1',
    'libphonenumber-js': '1',
    '@zxcvbn-ts/language-common': '1',
  },
  imports: { '#api/*': './api/*', '#infra/*': './shared/infra/*', '#shared/*': './shared/*' },
});

/** Returns the violations of a tree with these files, as `where: reason`. */
function check(
  test: { testdir(content: Record<string, string>): string },
  files: Record<string, string>,
  exemptions: Record<string, string> = {},
): string[] {
  const root = test.testdir({ 'package.json': PACKAGE });
  for (const [file, text] of Object.entries(files)) {
    mkdirSync(path.dirname(path.join(root, file)), { recursive: true });
    writeFileSync(path.join(root, file), text);
  }
  return checkTree(root, exemptions).map(({ where, reason }) => `${where}: ${reason}`);
}

const FORBIDDEN: readonly [string, string, string, RegExp][] = [
  ['kernel → rules', 'shared/kernel/a.ts', '../attempt/b.ts', /kernel imports nothing of ours/],
  ['kernel → library', 'shared/kernel/a.ts', 'mongodb', /only decimal\.js/],
  ['kernel → I/O', 'shared/kernel/a.ts', 'node:fs', /no I\/O/],
  ['kernel → bare I/O', 'shared/kernel/a.ts', 'fs', /no I\/O/],
  ['rules → other rules', 'shared/attempt/a.ts', '../auth/b.ts', /another service/],
  ['rules → infra', 'shared/attempt/a.ts', '../infra/mongo/b.ts', /rules are pure/],
  ['rules → I/O', 'shared/attempt/deep/a.ts', 'node:timers/promises', /no I\/O/],
  ['rules → library', 'shared/attempt/a.ts', 'ajv', /only decimal\.js/],
  ['rules → infra by a subpath', 'shared/attempt/a.ts', '#infra/mongo/b.ts', /rules are pure/],
  ['rules → other rules by a subpath', 'shared/attempt/a.ts', '#shared/auth/b.ts', /another service/],
  ['infra → api', 'shared/infra/mongo/a.ts', '../../../api/b.ts', /stands below/],
  ['infra → workers', 'shared/infra/mongo/a.ts', '../../../workers/b.ts', /stands below/],
  ['infra → scripts', 'shared/infra/mongo/a.ts', '../../../scripts/b.ts', /not part of what runs/],
  ['api → client', 'api/attempt/a.ts', '../../clients/typescript/src/index.ts', /for callers of the server/],
  ['api → client by its name', 'api/attempt/a.ts', '@examhall/client', /no production dependency/],
  ['mongodb elsewhere', 'api/attempt/a.ts', 'mongodb', /only shared\/infra\/mongo/],
  ['mongodb subpath elsewhere', 'workers/a.ts', 'mongodb/lib/x', /only shared\/infra\/mongo/],
  ['ioredis elsewhere', 'shared/infra/mongo/a.ts', 'ioredis', /only shared\/infra\/redis/],
  ['pino elsewhere', 'api/a.ts', 'pino', /only shared\/infra\/log/],
  ['bcrypt elsewhere', 'api/auth/a.ts', 'bcrypt', /only shared\/infra\/passwords/],
  ['jsonwebtoken elsewhere', 'api/http/a.ts', 'jsonwebtoken', /only shared\/infra\/jwt/],
  ['rate limiter elsewhere', 'api/auth/a.ts', 'rate-limiter-flexible', /only shared\/infra\/redis/],
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
  ['development package', 'api/a.ts', 'fast-check', /no production dependency/],
  ['test helpers in production', 'workers/a.ts', '../scripts/testing/b.ts', /not part of what runs/],
  ['a test', 'api/a.ts', './b.test.ts', /imported by nothing/],
];

for (const [name, file, specifier, reason] of FORBIDDEN) {
  t.test(`the layer check refuses the import ${name}`, async (t) => {
    const found = check(t, { [file]: `// first line\nimport { x } from '${specifier}';\n` });
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
  ['workers/actors.ts', "import { x } from './grading/actor.ts';"],
  ['workers/main.ts', "import { x } from './actors.ts';"],
  ['workers/upkeep/a.ts', "import { x } from '../../shared/auth/b.ts';"],
  ['api/a.ts', "import type { Db } from 'mongodb';"],
  ['api/a.test.ts', "import { MongoClient } from 'mongodb';\nimport { x } from '../workers/b.ts';"],
  ['scripts/a.ts', "import { MongoClient } from 'mongodb';\nimport { x } from '../workers/b.ts';"],
];

for (const [file, text] of ALLOWED) {
  t.test(`the layer check allows in ${file}: ${text.split('\n')[0]}`, async (t) => {
    t.strictSame(check(t, { [file]: text }), []);
  });
}

t.test('the layer check refuses a folder that its tables do not name, once', async (t) => {
  const twoFiles = { 'workers/sweeping/a.ts': '', 'workers/sweeping/b.ts': '' };
  t.match(check(t, twoFiles), [/^workers\/sweeping: .* SERVICE_OF_ACTOR/]);
  t.match(check(t, { 'api/school/a.ts': '' }), [/^api\/school: .* API_FOLDERS/]);
  t.match(check(t, { 'shared/infra/mongo/school/a.ts': '' }), [/^shared\/infra\/mongo\/school: .* MONGO_SHARED/]);
});

t.test('this tree has no violation of the layers', async (t) => {
  t.strictSame(checkTree(path.resolve(import.meta.dirname, '..')), []);
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
    t.match(check(t, { 'api/a.ts': text }), [/^api\/a\.ts:1: production names each import/]);
    t.match(readImports('a.ts', text).hidden, [{ what, line: 1 }]);
    t.strictSame(check(t, { 'scripts/a.ts': text }), []);
  });
}

t.test('the layer check refuses to normalize a text outside the kernel', async (t) => {
  const texts = ["a.normalize('NFC');", "a.b?.normalize('NFD');", "a['normalize']();", 'const f = a.normalize;'];
  for (const text of texts) {
    t.match(check(t, { 'api/a.ts': `\n${text}` }), [/^api\/a\.ts:2: only shared\/kernel\/text\.ts normalizes/], text);
    for (const file of ['shared/kernel/text.ts', 'api/a.test.ts', 'scripts/a.ts'])
      t.strictSame(check(t, { [file]: text }), [], `${text} in ${file}`);
  }
  t.strictSame(check(t, { 'api/a.ts': 'normalize(a); const normalize = { normalize: 1 }; a[normalize];' }), []);
});

t.test('the layer check refuses a library that two folders import', async (t) => {
  const files = { 'api/a.ts': "import { Ajv } from 'ajv';", 'shared/infra/schema/a.ts': "import { Ajv } from 'ajv';" };
  t.match(check(t, files), [/^api, shared\/infra\/schema: one library/]);
});

t.test('the layer check allows a pure library in several folders', async (t) => {
  const files = { 'api/a.ts': "import pLimit from 'p-limit';", 'workers/a.ts': "import pLimit from 'p-limit';" };
  t.strictSame(check(t, files), []);
});

t.test('the layer check reports an import cycle once, and cycles of types too', async (t) => {
  const files = {
    'shared/infra/log/a.ts': "import { b } from '../net/b.ts';",
    'shared/infra/net/b.ts': "import { c } from '../jwt/c.ts';",
    'shared/infra/jwt/c.ts': "export * from '../log/a.ts';",
  };
  t.match(check(t, files), [/^shared\/infra\/jwt\/c\.ts: files that import each other/]);
  const ofTypes = { ...files, 'shared/infra/jwt/c.ts': "import type { A } from '../log/a.ts';" };
  t.match(check(t, ofTypes), [/files that import each other/]);
  t.strictSame(
    findCycles(
      new Map([
        ['a', ['b', 'c']],
        ['b', ['d']],
        ['c', ['d']],
        ['d', []],
      ]),
    ),
    [],
  );
});

/** Returns a source with this many lines and these imports. */
function sourceOf(lines: number, ...imports: string[]): string {
  const head = imports.map((specifier, index) => `import { x${index} } from '${specifier}';`);
  return [...head, ...Array.from({ length: lines - head.length }, () => '//')].join('\n');
}

t.test('the layer check refuses small files with one reader and files over 300 lines', async (t) => {
  const reader = { 'api/reader.ts': sourceOf(40, './scrap.ts') };
  t.match(check(t, { ...reader, 'api/scrap.ts': sourceOf(39) }), [
    /^api\/scrap\.ts: a noun that api\/reader\.ts alone/,
  ]);
  t.strictSame(check(t, { ...reader, 'api/scrap.ts': sourceOf(40) }), [], 'large enough');
  const two = { ...reader, 'api/other.ts': sourceOf(40, './scrap.ts'), 'api/scrap.ts': sourceOf(1) };
  t.strictSame(check(t, two), [], 'two readers');
  const apart = { 'api/attempt/reader.ts': sourceOf(40, '../scrap.ts'), 'api/scrap.ts': sourceOf(1) };
  t.strictSame(check(t, apart), [], 'the only reader is in another folder');
  const tested = { ...reader, 'api/scrap.ts': sourceOf(1), 'api/scrap.test.ts': sourceOf(40, './scrap.ts') };
  t.match(check(t, tested), [/alone reads/], 'a test does not count as a reader');
  t.match(check(t, { 'api/a.ts': sourceOf(301) }), [/^api\/a\.ts: at 300 lines/]);
  t.strictSame(check(t, { 'api/a.ts': sourceOf(300), 'scripts/a.ts': sourceOf(301) }), []);
  t.strictSame(check(t, { ...reader, 'api/scrap.ts': sourceOf(39) }, { 'api/scrap.ts': 'a reason' }), []);
});

t.test('the layer check accepts an exemption only as long as it is needed', async (t) => {
  const files = { 'api/a.ts': "import { MongoClient } from 'mongodb';" };
  t.strictSame(check(t, files, { 'api/a.ts -> mongodb': 'a reason' }), []);
  t.match(check(t, files, { 'api/b.ts -> mongodb': 'a reason' }), [/only shared/, /nothing needs it/]);
});

/** Returns the imports of a source as `line specifier`, followed by `type` for imports of types. */
function importsOf(source: string): string[] {
  return readImports('a.ts', source).imports.map(
    ({ line, specifier, typeOnly }) => `${line} ${specifier}${typeOnly ? ' type' : ''}`,
  );
}

t.test('readImports finds imports in every syntax', async (t) => {
  const source = [
    "import a from './a.ts';",
    "import type { B } from './b.ts';",
    'import {',
    '  c, // not from "./x.ts"',
    '  type D,',
    "} from './c.ts';",
    "import './side.ts';",
    "export { e } from './e.ts';",
    "export type { F } from './f.ts';",
    "export * as g from './g.ts';",
    "const h = await import('./h.ts');",
    "// import i from './i.ts';",
    "/* import j from './j.ts'; */",
    "const url = 'http://k'; import { k } from './k.ts';",
    "export const text = 'from';",
    'const l = await import(`./l.ts`);',
    "import { 'a-b' as m } from './m.ts';",
    'const open = `/*`;',
    "import n from './n.ts';",
    'const close = `*/`;',
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the source of a template
    "const nested = `${`/*${await import('./o.ts')}`}`;",
    "const pattern = /['`]/.test(text) ? 1 / 2 : 3;",
    "import type from './p.ts'; import type * as Q from './q.ts';",
    "import r, * as s from './r.ts' with { type: 'json' };",
  ].join('\n');
  const lines = [1, 2, 3, 7, 8, 9, 10, 11, 14, 16, 17, 19, 21, 23, 23, 24];
  const names = ['a', 'b type', 'c', 'side', 'e', 'f type', 'g', 'h', 'k', 'l', 'm', 'n', 'o', 'p', 'q type', 'r'];
  const want = names.map((name, index) => `${lines[index]} ./${name.replace(/^\w+/, '$&.ts')}`);
  t.strictSame(importsOf(source), want);
  t.strictSame(readImports('a.ts', source).hidden, []);
});

t.test('readImports ignores text that only resembles an import', async (t) => {
  const source = [
    "const text = `import a from './a.ts';`;",
    "const b = { import: './b.ts', require: 1 };",
    'const here = import.meta.dirname;',
    "loader.import('./c.ts');",
    "const d = 1; export { d }; const from = './d.ts';",
    "export type E = { from: './e.ts' };",
  ].join('\n');
  t.strictSame(readImports('a.ts', source), { imports: [], hidden: [], normalizing: [] });
  t.throws(() => readImports('a.ts', 'const text = `no end;'), /^a.ts: Unterminated template/);
});
