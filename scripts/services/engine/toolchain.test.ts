import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { checkRust, findToolchain } from './toolchain.ts';

const said = (release: string) =>
  `rustc ${release} (abc 2026-01-01)\nrelease: ${release}\nhost: x86_64-unknown-linux-gnu\n`;

t.test('the engine toolchain names every missing tool and how to install it', async (t) => {
  const found = findToolchain({ PATH: '' });
  t.match(found, { kind: 'missing', tools: [/^Rust 1\.95 or later/, /^a C compiler/, /^cmake/, /^make or ninja/] });
  t.match(findToolchain({ PATH: '', CC: 'tcc' }), { tools: [/^Rust/, /^cmake/, /^make/] }, 'CC names a compiler');
});

t.test('the engine toolchain treats tools that do not run as missing', async (t) => {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-tools-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  for (const name of ['cargo', 'rustc', 'cc', 'cmake', 'make']) {
    writeFileSync(path.join(folder, name), '#!/bin/sh\nexit 1\n');
    chmodSync(path.join(folder, name), 0o755);
  }
  t.match(findToolchain({ PATH: folder }), { kind: 'missing', tools: [/^Rust .* does not run$/] });
});

t.test('the engine toolchain accepts Rust by the version that rustc reports', async (t) => {
  for (const release of ['1.95.0', '1.98.1', '2.0.0', '1.95.0-nightly']) {
    const toolchain = {
      cargo: '/bin/cargo',
      host: 'x86_64-unknown-linux-gnu',
      rustc: `rustc ${release} (abc 2026-01-01)`,
    };
    t.strictSame(checkRust('/bin/cargo', said(release)), { kind: 'ready', toolchain });
  }
  for (const release of ['1.94.1', '1.9.0', '0.99.0', ''])
    t.match(checkRust('/bin/cargo', said(release)), { kind: 'missing' });
});
