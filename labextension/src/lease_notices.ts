import { Notification } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { IDisposable } from '@lumino/disposable';

import { Heard } from './heard';
import { isComingBack, isLeaving } from './lease_view';
import { IGpuShareModel } from './model';
import { Lease, Snapshot } from './wire';

/** Where a share is to be had. */
const HAS_SHARE = ['granted', 'running'];

/** Where memory comes back, or has come back. */
const COMES_BACK = ['resuming', 'running'];

interface ILeaseNoticesOptions {
  model: IGpuShareModel;
  heard: Heard;
  trans: TranslationBundle;
}

/** Tells who waited that the wait is over: the share is there, or training has left. Once in a browser. */
export class LeaseNotices implements IDisposable {
  constructor(private readonly _options: ILeaseNoticesOptions) {
    _options.model.changed.connect(this._review, this);
  }

  get isDisposed(): boolean {
    return this._isDisposed;
  }

  dispose(): void {
    this._isDisposed = true;
    this._options.model.changed.disconnect(this._review, this);
  }

  private _review(): void {
    const { snapshot, contact } = this._options.model;
    if (contact !== 'live' || !snapshot) {
      return;
    }
    const [before, lease] = [this._before, snapshot.lease];
    this._before = lease;
    if (before && lease) {
      this._compare(before, lease, snapshot);
    }
  }

  private _compare(before: Lease, lease: Lease, { share }: Snapshot): void {
    const { trans } = this._options;
    if (before.status === 'queued' && HAS_SHARE.includes(lease.status)) {
      this._tell(`granted ${before.since}`, trans.__('Your GPU share is there: %1.', share.description));
    }
    if (isComingBack(before) && !isLeaving(lease) && COMES_BACK.includes(lease.status)) {
      this._tell(
        `left ${before.began}`,
        trans.__('Training has saved its work and left: your GPU memory comes back.')
      );
    }
  }

  private _tell(id: string, text: string): void {
    const { heard } = this._options;
    if (!heard.has(`lease ${id}`)) {
      heard.add(`lease ${id}`);
      Notification.info(text, { autoClose: 5_000 });
    }
  }

  private _before: Lease | null = null;
  private _isDisposed = false;
}
