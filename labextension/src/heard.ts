const KEY = 'jupyter-gpushare:heard';
const MOST = 100;

/** What this browser has been told, across its tabs and reloads; the newest hundred. */
export class Heard {
  /** *storage* may be null or full, as in a private window: then this page alone remembers. */
  constructor(private readonly _storage: Storage | null) {}

  has(id: string): boolean {
    return this._here.has(id) || this._stored().includes(id);
  }

  add(id: string): void {
    this._here.add(id);
    const ids = [...this._stored(), id].slice(-MOST);
    try {
      this._storage?.setItem(KEY, JSON.stringify(ids));
    } catch {
      return; // full: this page still remembers
    }
  }

  /** Anybody can write there: what is no list of texts is nothing. */
  private _stored(): string[] {
    try {
      const stored: unknown = JSON.parse(this._storage?.getItem(KEY) ?? '[]');
      return Array.isArray(stored) ? stored.filter((id): id is string => typeof id === 'string') : [];
    } catch {
      return [];
    }
  }

  private readonly _here = new Set<string>();
}
