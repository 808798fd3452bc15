"""What an extension costs JupyterLab's start-up."""
