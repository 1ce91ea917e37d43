import { type LocalServer, listenLocally } from './local-server.ts';
import type { Student } from './students.ts';

/**
 * Stands in for the profile service, which does not run here: it knows the parents of these students. Asked for anybody else's it
 * answers 403, which the dispatcher reads as a fault of configuration: the notice goes back, unspent, and waits for the real service.
 */
export function openProfileStandIn(port: number, students: readonly Student[]): Promise<LocalServer> {
  const parents = new Map(students.map((student) => [student.id, student.parentIds]));

  function parentsReply(path: string): { status: number; body: object } {
    const student = /^\/v1\/students\/([^/?]+)\/parents$/.exec(path)?.[1];
    if (student === undefined) return { status: 404, body: {} };
    const parentIds = parents.get(decodeURIComponent(student));
    if (parentIds === undefined) return { status: 403, body: {} };
    return { status: parentIds.length === 0 ? 404 : 200, body: { success: true, data: { parentIds } } };
  }

  return listenLocally(port, async (request, response) => {
    const { status, body } = parentsReply(request.method === 'GET' ? (request.url ?? '') : '');
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  });
}
