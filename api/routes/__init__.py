"""The HTTP routes, one module per subject. Each module has a `router` that `zabka.api.app` includes.

Handlers validate requests, call the services of `zabka.api.services`, and return models. Only `app` imports this
package. The package imports the other packages of `api`. To learn the code, read `nodes` first.
"""
