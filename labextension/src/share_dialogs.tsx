import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';

import { IShareDialogs } from './share_flow';
import type { ShareForm } from './share_form';
import { Snapshot } from './wire';

/** The dialog and the notifications of another share, in Lab's own manner. */
export class LabShareDialogs implements IShareDialogs {
  constructor(private readonly _trans: TranslationBundle) {}

  async write(snapshot: Snapshot, text: string, refusal: string): Promise<string | null> {
    const trans = this._trans;
    const { ShareForm } = await import('./share_form'); // not at start-up
    const { button, value } = await showDialog<string>({
      title: trans.__('Change share'),
      body: new ShareBody({ Form: ShareForm, snapshot, text, refusal }, trans),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.okButton({ label: trans.__('Ask for it'), className: 'jp-gpushare-accept' })
      ]
    });
    return button.accept ? value : null;
  }

  tell(text: string, hasWorked: boolean, needsRestart: boolean): void {
    if (!hasWorked) {
      Notification.warning(text, { autoClose: false });
    } else if (needsRestart) {
      Notification.info(text, { autoClose: false });
    } else {
      Notification.success(text, { autoClose: 5000 });
    }
  }
}

interface IShareAbout {
  Form: typeof ShareForm;
  snapshot: Snapshot;
  text: string;
  refusal: string;
}

class ShareBody extends ReactWidget implements Dialog.IBodyWidget {
  constructor(
    private readonly _about: IShareAbout,
    private readonly _trans: TranslationBundle
  ) {
    super();
    // Lab's dialog looks for its first control before React has drawn ours; without one, Tab never comes back here.
    this.node.tabIndex = -1;
    this.node.addEventListener('focus', () => {
      this.node.querySelector<HTMLElement>('input')?.focus();
    });
  }

  getValue(): string {
    return this._written;
  }

  protected override render(): React.JSX.Element {
    const { Form, snapshot, text, refusal } = this._about;
    return (
      <Form
        snapshot={snapshot}
        text={text}
        refusal={refusal}
        trans={this._trans}
        onChange={written => {
          this._written = written;
        }}
      />
    );
  }

  private _written = '';
}
