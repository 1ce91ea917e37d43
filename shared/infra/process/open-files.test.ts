import t from 'tap';
import { connectionsWithin, permittedConnections } from './open-files.ts';

const limits = (files: string) =>
  `Max processes             96103  96103  processes \nMax open files            ${files}  ${files}  files \n`;

t.test('connections leave file descriptors to the stores', async (t) => {
  t.equal(connectionsWithin(32_768, limits('1048576')), 32_768);
  t.equal(connectionsWithin(32_768, limits('20000')), 18_976);
  t.equal(connectionsWithin(32_768, limits('1024')), 256);
  t.equal(connectionsWithin(32_768, limits('unlimited')), 32_768);
  t.equal(connectionsWithin(32_768, null), 32_768);
});

t.test('a process that may open fewer files than it wants connections logs it', async (t) => {
  const lines: unknown[] = [];
  permittedConnections(1, (fields) => lines.push(fields));
  t.same(lines, []);
  const wanted = Number.MAX_SAFE_INTEGER;
  const permitted = permittedConnections(wanted, (fields) => lines.push(fields));
  t.same(lines, permitted < wanted ? [{ wanted, permitted }] : []);
});
