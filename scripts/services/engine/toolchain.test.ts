import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t from 'tap';
import { checkRust, findToolchain, RUST_VERSION } from './toolchain.ts';

const said = (release: string) =>
  `rustc ${release} (abc 2026-01-01)\nrelease: ${release}\nhost: x86_64-unknown-linux-gnu\n`;

const FOUND = { cargo: '/bin/cargo', selection: {} };

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
      selection: {},
    };
    t.strictSame(checkRust(FOUND, said(release)), { kind: 'ready', toolchain });
  }
  for (const release of ['1.94.1', '1.9.0', '0.99.0', ''])
    t.match(checkRust(FOUND, said(release)), { kind: 'missing' });
});

t.test(
  'the engine toolchain selects its own version of rustup, and accepts a newer one where that is missing',
  async (t) => {
    const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-tools-'));
    t.teardown(() => rmSync(folder, { recursive: true, force: true }));
    const install = (name: string, script: string) =>
      writeFileSync(path.join(folder, name), `#!/bin/sh\n${script}\n`, { mode: 0o755 });
    for (const name of ['cc', 'cmake', 'make']) install(name, '');
    const rustup = (installed: string) => {
      for (const name of ['cargo', 'rustc'])
        install(
          name,
          `version=\${RUSTUP_TOOLCHAIN:-1.99.1}
case " ${installed} " in *" $version "*) ;; *) exit 1 ;; esac
printf 'rustc %s (abc)\\nrelease: %s\\nhost: a-host\\n' "$version" "$version"`,
        );
    };
    const found = (env: NodeJS.ProcessEnv = {}) => findToolchain({ PATH: `${folder}:/usr/bin:/bin`, ...env });
    rustup(`1.99.1 ${RUST_VERSION}`);
    const own = { rustc: `rustc ${RUST_VERSION} (abc)`, selection: { RUSTUP_TOOLCHAIN: RUST_VERSION } };
    t.match(found(), { kind: 'ready', toolchain: own });
    t.match(found({ RUSTUP_TOOLCHAIN: '1.99.1' }), { kind: 'ready', toolchain: { rustc: 'rustc 1.99.1 (abc)' } });
    rustup('1.99.1');
    t.match(found(), { kind: 'ready', toolchain: { rustc: 'rustc 1.99.1 (abc)', selection: {} } });
    rustup('');
    t.match(found(), { kind: 'missing' });
  },
);
