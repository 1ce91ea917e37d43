import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { DEVELOPMENT_DEFAULTS } from '#infra/config/variable.ts';
import { VARIABLES } from '#infra/config/variables.ts';
import { loadSchemas } from '#infra/schema/validator.ts';
import { billOfMaterials } from '#scripts/sbom.ts';
import { ERRORS } from '#shared/kernel/errors.ts';
import { drift, generatedFiles } from './generate.ts';
import { configurationList, envExample, RETRY } from './lists.ts';

t.test('drift finds no difference in this tree, and reports changed, missing and superfluous files', async (t) => {
  const files = new Map(await generatedFiles(loadSchemas()));
  t.strictSame(drift(files), []);
  const types = files.get('shared/generated/attempt.ts') ?? '';
  t.match(types, /export interface SaveAnswerRequest \{/);
  t.notMatch(
    types.replaceAll(/(metadata\??:|interface StudentInfo) \{\s+\[k: string\]: unknown;/g, ''),
    /\[k: string\]/,
    'only metadata and student info are free maps',
  );
  files.set('shared/generated/attempt.ts', `${types} `);
  files.delete('shared/generated/common.ts');
  files.set('docs/not-there.md', '');
  t.strictSame(drift(files), ['docs/not-there.md', 'shared/generated/attempt.ts', 'shared/generated/common.ts']);
});

t.test('the product and the client get the same type of a schema', async (t) => {
  const files = await generatedFiles(loadSchemas());
  for (const file of ['shared/generated/operations.ts', 'clients/typescript/src/generated.ts']) {
    t.match(files.get(file), /\bact: 'replay' \| 'ack' \| 'drop';/, `${file} names the acts on dead letters`);
  }
});

t.test('docs/errors.md lists every code once, with its status, and explains it below a heading', async (t) => {
  const page = (await generatedFiles(loadSchemas())).get('docs/errors.md') ?? '';
  const rows = [...page.matchAll(/^\| \[`(\w+)`\]\(#(\w+)\) \| (\d+) \|/gm)];
  t.same(
    rows.map(([, code, anchor, status]) => `${code} ${anchor} ${status}`),
    Object.entries(ERRORS).map(([code, { status }]) => `${code} ${code.toLowerCase()} ${status}`),
  );
  const headings = [...page.matchAll(/^### `(\w+)`\n\n(\d+): /gm)];
  t.same(
    headings.map(([, code, status]) => `${code} ${status}`),
    Object.entries(ERRORS).map(([code, { status }]) => `${code} ${status}`),
  );
});

t.test('docs/configuration.md and .env.example list every variable', async (t) => {
  for (const name of Object.keys(VARIABLES)) {
    t.match(configurationList(), `\n- **\`${name}\`** (`);
    t.match(envExample(), `${name}=`);
  }
});

t.test('docs/configuration.md names every development token, and docs/errors.md explains every retry', async (t) => {
  const files = await generatedFiles(loadSchemas());
  for (const [name, value] of Object.entries(DEVELOPMENT_DEFAULTS))
    t.match(files.get('docs/configuration.md'), `\`${name}=${value}\``);
  for (const answer of Object.values(RETRY)) t.match(files.get('docs/errors.md'), `\n| ${answer} | `);
});

t.test(
  'the bill of materials lists every production package with its checksum, and no development package',
  async (t) => {
    const { bomFormat, metadata, components } = JSON.parse(billOfMaterials());
    t.equal(bomFormat, 'CycloneDX');
    t.equal(metadata.component.name, 'examhall');
    const names = components.map(({ name }: { name: string }) => name);
    const root = path.resolve(import.meta.dirname, '../..');
    const { dependencies, devDependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
    for (const name of Object.keys(dependencies)) t.ok(names.includes(name), name);
    for (const name of ['bson', 'denque', 'semver'])
      t.ok(names.includes(name), `${name}, a dependency of a dependency`);
    for (const name of Object.keys(devDependencies)) t.notOk(names.includes(name), name);
    for (const { name, hashes } of components) t.match(hashes, [{ alg: 'SHA-512', content: /^[0-9a-f]{128}$/ }], name);
  },
);
