import type { Place } from './place.ts';

const SERVICES = ['attempt', 'auth', 'classifier', 'notification'];

/** Folders of api/ that serve every service, not one. */
const API_SHARED = ['http'];

/** All folders of api/. `operations` and `console` belong to operators, who see all services; `reference` shows the document of all. */
const API_FOLDERS = [...SERVICES, ...API_SHARED, 'operations', 'console', 'reference'];

/** The service whose rules an actor applies: `all` sweeps for every service. */
const SERVICE_OF_ACTOR: Readonly<Record<string, string>> = {
  grading: 'attempt',
  'essay-handoff': 'attempt',
  'results-release': 'attempt',
  'grade-notices': 'attempt',
  'account-notices': 'auth',
  classifier: 'classifier',
  settlement: 'classifier',
  delivery: 'notification',
  upkeep: 'all',
};

/** Folders of shared/infra/mongo that serve every service: the indexes, commands and traces of all, and what all expect of the server. */
const MONGO_SHARED = ['mailbox', 'operations', 'person', 'probe', 'schema'];

/** The files right under api/ and workers/ that put the folders there together. The others stand below those folders. */
const MOUNTS = { api: 'main.ts', workers: 'actors.ts' };

const OTHER_SERVICE = 'no service folder imports another service';

/** The reason why a folder is not in the tables above, so that no rule would hold for it; undefined for a known one. */
export function unknownFolder(place: Place): string | undefined {
  if (place.layer === 'workers' && place.folder !== undefined && SERVICE_OF_ACTOR[place.folder] === undefined)
    return 'an actor belongs to a service: name it in SERVICE_OF_ACTOR';
  if (place.layer === 'api' && place.folder !== undefined && !API_FOLDERS.includes(place.folder))
    return 'a folder of api is a service or serves all: name it in SERVICES or API_FOLDERS';
  if (place.layer === 'infra' && place.part !== undefined && ![...SERVICES, ...MONGO_SHARED].includes(place.part))
    return 'a folder of shared/infra/mongo is a service or serves all: name it in SERVICES or MONGO_SHARED';
  return undefined;
}

/** The reason why `from` may not import `to`, both files of ours; undefined when it may. */
export function brokenArrow(from: Place, to: Place): string | undefined {
  if (to.layer === 'scripts') return 'scripts/ is not part of what runs in production';
  if (to.layer === 'clients') return 'the client is for callers of the server, which never calls itself by it';
  switch (from.layer) {
    case 'kernel':
      return to.layer === 'kernel' ? undefined : 'the kernel imports nothing of ours: everything else stands on it';
    case 'generated':
      return to.layer === 'generated' ? undefined : 'generated types come from schemas/ alone';
    case 'rules':
      if (to.layer === 'kernel' || to.layer === 'generated') return undefined;
      if (to.layer === 'rules') return to.service === from.service ? undefined : OTHER_SERVICE;
      return 'rules are pure: they know neither the stores nor the processes that apply them';
    case 'infra':
      return brokenInfraArrow(from.part, to);
    case 'api':
      return brokenApiArrow(from, to);
    case 'workers':
      return brokenWorkersArrow(from, to);
    default:
      return undefined;
  }
}

function brokenInfraArrow(part: string | undefined, to: Place): string | undefined {
  if (to.layer === 'api' || to.layer === 'workers') return 'infra stands below api and workers';
  if (part === undefined || !SERVICES.includes(part)) return undefined;
  const service = to.layer === 'rules' ? to.service : to.layer === 'infra' ? to.part : undefined;
  const isOther = service !== undefined && service !== part && !MONGO_SHARED.includes(service);
  return isOther ? OTHER_SERVICE : undefined;
}

interface Process {
  readonly folder: string | undefined;
  readonly file: string;
}

function brokenApiArrow({ folder, file }: Process, to: Place): string | undefined {
  if (to.layer === 'workers') return 'a front door never does the work of an actor: it writes a command and rings';
  if (to.layer === 'api' && to.folder !== undefined && to.folder !== folder && !API_SHARED.includes(to.folder)) {
    if (folder === undefined) return file === MOUNTS.api ? undefined : `only ${MOUNTS.api} mounts the services`;
    return API_SHARED.includes(folder) ? 'http serves every service and knows none' : OTHER_SERVICE;
  }
  if (folder === undefined) return undefined;
  return to.layer === 'rules' && SERVICES.includes(folder) && to.service !== folder ? OTHER_SERVICE : undefined;
}

function brokenWorkersArrow({ folder, file }: Process, to: Place): string | undefined {
  if (to.layer === 'api') return 'an actor works without any front door in its process';
  if (to.layer === 'workers' && to.folder !== undefined && to.folder !== folder) {
    if (folder === undefined) return file === MOUNTS.workers ? undefined : `only ${MOUNTS.workers} lists the actors`;
    return 'actors share the kernel files of workers/, not each other';
  }
  if (folder === undefined) return undefined;
  const service = SERVICE_OF_ACTOR[folder];
  return to.layer === 'rules' && service !== 'all' && to.service !== service ? OTHER_SERVICE : undefined;
}
