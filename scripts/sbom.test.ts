import { readFileSync } from 'node:fs';
import path from 'node:path';
import t from 'tap';
import { billOfMaterials } from './sbom.ts';

t.test(
  'the bill of materials lists every production package with its checksum, and no development package',
  async (t) => {
    const { bomFormat, metadata, components } = JSON.parse(billOfMaterials());
    t.equal(bomFormat, 'CycloneDX');
    t.equal(metadata.component.name, 'examhall');
    const names = components.map(({ name }: { name: string }) => name);
    const root = path.resolve(import.meta.dirname, '..');
    const { dependencies, devDependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'));
    for (const name of Object.keys(dependencies)) t.ok(names.includes(name), name);
    for (const name of ['bson', 'denque', 'semver'])
      t.ok(names.includes(name), `${name}, a dependency of a dependency`);
    for (const name of Object.keys(devDependencies)) t.notOk(names.includes(name), name);
    for (const { name, hashes } of components) t.match(hashes, [{ alg: 'SHA-512', content: /^[0-9a-f]{128}$/ }], name);
  },
);
